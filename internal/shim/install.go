package shim

// Install extracts the shim into a directory for PYTHONPATH and returns it.
func Install() (dir string, err error) { return "", ErrUnsupported }

// Environ returns env with the shim's directory first on PYTHONPATH and the
// agent's address set.
func Environ(env []string, dir, socket, token string) []string { return env }
