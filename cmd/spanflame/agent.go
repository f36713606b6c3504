package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"

	"github.com/spanflame/spanflame/internal/agent"
	"github.com/spanflame/spanflame/internal/launch"
	"github.com/spanflame/spanflame/internal/shim"
)

func runAgent() (code int) {
	if err := serve(); err != nil {
		say(err.Error())
		return codeError
	}
	return codeOK
}

// serve is the agent process, from its front's words to its end.
func serve() error {
	session, err := launch.Join()
	if err != nil {
		return err
	}
	defer session.Close()
	var h handoff
	if err := json.Unmarshal(session.Handoff, &h); err != nil {
		return err
	}
	listener, err := shim.FileListener(session.Listener)
	session.Listener.Close()
	if err != nil {
		return err
	}
	defer listener.Close()
	return agent.Main(context.Background(), agent.Input{
		Config:   h.Config,
		Listener: listener,
		Token:    h.Token,
		Control:  session.Control,
		Ack:      session.Ack,
		Flushed:  session.Flushed,
		Log:      slog.New(&lines{level: h.Config.LogLevel, out: os.Stderr}),
	})
}
