// Package pgserver runs a PostgreSQL of Bough's own: it finds or fetches the
// programs, makes the cluster, starts the postmaster as a child process, keeps
// it running and stops it with Bough.
//
// Everything lies in Bough's data directory:
//
//	bough.lock         held by the one Bough process that uses the directory
//	postgres/          the cluster (PGDATA), or a link to it
//	postgres.password  the superuser's password, readable by its owner only
//	postgres.port      the loopback port, kept so that URLs outlive a restart
//
// What is inside the databases is no business of this package.
package pgserver
