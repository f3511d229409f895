-- name: GetInstallationID :one
select id from installation;

-- name: GetMCPStateKey :one
select mcp_state_key from installation;
