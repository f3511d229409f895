// Package postgres owns the connections to both planes: pools and migrations of the control database, the pools of
// main and its branches, and the making, swapping and dropping of databases. It also gives main and the branches what
// data requests need: the roles they run as, the schema auth with the functions for policies, privileges, and the event
// trigger that tells of changes of the schema.
//
// It knows databases by name; that a database belongs to a branch, and who may use it, is package branching's affair.
package postgres
