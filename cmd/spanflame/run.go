package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spanflame/spanflame/internal/config"
	"github.com/spanflame/spanflame/internal/export"
	"github.com/spanflame/spanflame/internal/export/pproffile"
	"github.com/spanflame/spanflame/internal/launch"
	"github.com/spanflame/spanflame/internal/shim"
)

// handoff is what run tells the agent.
type handoff struct {
	Config *config.Config
	Token  string
}

func run(args []string) (code int) {
	cfg, argv, err := config.Load(args, os.Environ())
	if errors.Is(err, config.ErrHelp) {
		usageOfRun(os.Stdout)
		return codeOK
	}
	if err == nil && len(argv) == 0 {
		err = errors.New("no command; usage: spanflame run [flags] -- CMD ARGS…")
	}
	if err != nil {
		say(err.Error())
		return codeUsage
	}
	for _, warning := range cfg.Warnings {
		say(warning)
	}
	path, err := launch.Find(argv[0], os.Getenv("PATH"))
	if err != nil {
		return refused(err)
	}
	command := launch.Command{Path: path, Args: argv, Env: os.Environ()}
	if !cfg.Enabled {
		say(fmt.Sprintf("profiling is turned off by %s", cfg.DisabledBy))
		return refused(launch.Exec(command))
	}
	if cfg.Exporter == config.ExporterPprof {
		if err := pproffile.New(cfg.PprofPath).Check(); err != nil {
			say(fmt.Sprintf("%v; %s", err, export.HintOf(err)))
			return codeUsage
		}
	}
	agent, err := prepare(cfg, &command)
	if err != nil {
		say(fmt.Sprintf("%s runs on unprofiled: %v", argv[0], err))
		return refused(launch.Exec(command))
	}
	code, err = launch.Run(command, agent, say)
	if err != nil {
		return refused(err)
	}
	return code
}

// prepare makes what the command's Python processes need to find the agent.
func prepare(cfg *config.Config, command *launch.Command) (launch.Agent, error) {
	dir, err := shim.Install()
	if err != nil {
		// The agent reads what it can without shims.
		say(err.Error())
	}
	name, token, listener, err := shim.NewEndpoint()
	if err != nil {
		return launch.Agent{}, err
	}
	defer listener.Close()
	file, err := shim.ListenerFile(listener)
	if err != nil {
		return launch.Agent{}, fmt.Errorf("pass the listener on: %w", err)
	}
	data, err := json.Marshal(handoff{cfg, token})
	if err != nil {
		return launch.Agent{}, fmt.Errorf("pass the configuration on: %w", err)
	}
	if dir != "" {
		command.Env = shim.Environ(command.Env, dir, name, token)
	}
	return launch.Agent{Handoff: data, Listener: file, Timeout: cfg.ShutdownTimeout}, nil
}

func refused(err error) (code int) {
	say(err.Error())
	if e, ok := errors.AsType[*launch.Error](err); ok {
		return e.Code()
	}
	return codeError
}
