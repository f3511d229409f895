-- name: GetInstallationID :one
select id from installation;
