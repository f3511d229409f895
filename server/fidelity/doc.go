// Package fidelity tests that copies of databases are exact: it loads schemas
// with rows, makes copies in every mode by every strategy, and compares
// everything that the catalogs say, the definitions, rows, sequences, large
// objects and settings. The short form is part of the ordinary tests;
// make test-fidelity has large schemas and real ones, too.
package fidelity
