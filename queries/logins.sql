-- name: InsertLogin :exec
-- Keeps the password that is there.
insert into database_logins (role, password) values (@role, @password) on conflict do nothing;

-- name: GetLogin :one
select * from database_logins where role = @role;

-- name: LockLogin :one
-- Processes that set a role's password take turns.
select * from database_logins where role = @role for update;

-- name: SetLoginPassword :exec
-- The server does not have it yet.
update database_logins set password = @password, applied = false, rotated_at = now() where role = @role;

-- name: SetLoginApplied :exec
update database_logins set applied = @applied where role = @role;

-- name: DeleteLogin :exec
delete from database_logins where role = @role;
