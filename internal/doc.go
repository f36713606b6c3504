// Package internal holds everything that is not public API yet.
package internal
