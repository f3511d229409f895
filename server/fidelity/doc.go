// Package fidelity tests that copies of databases are exact.
package fidelity
