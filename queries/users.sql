-- name: InsertUser :one
-- No row when the address is taken.
insert into users (id, email, email_verified_at, password_hash, role, user_metadata, app_metadata)
values (@id, @email, case when @email_verified::boolean then now() end, @password_hash, @role, @user_metadata, @app_metadata)
on conflict on constraint users_email_key do nothing
returning *;

-- name: GetUser :one
select * from users where id = @id;

-- name: GetUserByEmail :one
select * from users where email = @email;

-- name: ShareUser :one
-- Keeps the user from being changed until the end of the transaction.
select * from users where id = @id for share;

-- name: LockUser :one
-- Keeps the user from being changed and from signing in until the end of the transaction.
select * from users where id = @id for update;

-- name: LockUserByEmail :one
select * from users where email = @email for update;

-- name: NoteSignIn :one
update users
set last_sign_in_at = now()
where id = @id and disabled_at is null
returning *;

-- name: RenewPasswordHash :exec
-- Stores the same password hashed with other parameters, unless the password was changed meanwhile.
update users set password_hash = @new_hash where id = @id and password_hash = @old_hash;

-- name: VerifyEmail :one
-- Notes that the user has the mailbox. The password, the data and the wishes of whoever did not show that may be replaced.
update users
set email_verified_at = coalesce(email_verified_at, now()),
    password_hash = case when @replace_password::boolean then sqlc.narg(password_hash) else password_hash end,
    new_email = case when @replace_password::boolean then null else new_email end,
    user_metadata = case when @replace_metadata::boolean then @user_metadata else user_metadata end,
    updated_at = now()
where id = @id
returning *;

-- name: ChangeEmail :one
-- No row when another user has the address.
update users u
set email = @email, email_verified_at = now(), new_email = null, updated_at = now(),
    password_hash = case when @remove_password::boolean then null else password_hash end
where u.id = @id and not exists (select from users o where o.email = @email and o.id <> u.id)
returning *;

-- name: UpdateUser :one
update users
set email = coalesce(sqlc.narg(email), email),
    email_verified_at = case
        when sqlc.narg(email_verified)::boolean then coalesce(email_verified_at, now())
        when not sqlc.narg(email_verified)::boolean then null
        else email_verified_at end,
    new_email = case when @cancel_new_email::boolean then sqlc.narg(new_email) else coalesce(sqlc.narg(new_email), new_email) end,
    password_hash = coalesce(sqlc.narg(password_hash), password_hash),
    role = coalesce(sqlc.narg(role), role),
    user_metadata = coalesce(sqlc.narg(user_metadata), user_metadata),
    app_metadata = coalesce(sqlc.narg(app_metadata), app_metadata),
    disabled_at = case
        when sqlc.narg(disabled)::boolean then coalesce(disabled_at, now())
        when not sqlc.narg(disabled)::boolean then null
        else disabled_at end,
    updated_at = now()
where id = @id
returning *;

-- name: DeleteUser :execrows
delete from users where id = @id;

-- name: RevokeUserKeys :execrows
update api_keys set revoked_at = now() where user_id = @user_id::uuid and revoked_at is null;

-- name: DeleteUserGrants :exec
delete from branch_access where user_id = @user_id;

-- name: ListUsers :many
select *
from users
where (sqlc.narg(email)::text is null or email = sqlc.narg(email))
  and (sqlc.narg(role)::user_role is null or role = sqlc.narg(role))
order by created_at desc, id desc
limit @max_rows offset @skip_rows;

-- name: CountUsers :one
select count(*)
from users
where (sqlc.narg(email)::text is null or email = sqlc.narg(email))
  and (sqlc.narg(role)::user_role is null or role = sqlc.narg(role));
