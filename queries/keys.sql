-- name: InsertAPIKey :one
insert into api_keys (id, type, name, prefix, hash, scopes, user_id, created_by, expires_at)
values (@id, @type, @name, @prefix, @hash, @scopes, @user_id, @created_by, @expires_at)
on conflict on constraint api_keys_hash_key do nothing
returning *;

-- name: GetAPIKeyByHash :one
-- The key with what its user is at present. A user who is not of this server is no administrator.
select sqlc.embed(k), coalesce(u.role = 'admin', false)::boolean as user_is_admin,
    (u.disabled_at is not null)::boolean as user_disabled
from api_keys k
left join users u on u.id = k.user_id
where k.hash = @hash;

-- name: LockUserKeys :exec
-- Of transactions that create keys of one user, one at a time goes on. The user need not be one of this server.
select pg_advisory_xact_lock(hashtextextended('bough.client_keys ' || (@user_id::uuid)::text, 0));

-- name: CountUsableUserKeys :one
select count(*)
from api_keys
where user_id = @user_id::uuid and revoked_at is null and (expires_at is null or expires_at > now());

-- name: TrimUserKeys :exec
-- Of a user's keys that have ended only the newest stay listed.
delete from api_keys
where id in (
    select k.id
    from api_keys k
    where k.user_id = @user_id::uuid and (k.revoked_at is not null or k.expires_at <= now())
    order by k.created_at desc, k.id desc
    offset @kept);

-- name: ListAPIKeys :many
-- user_id null lists everybody's keys; only_id null lists more than one.
select *
from api_keys
where (sqlc.narg(user_id)::uuid is null or user_id = sqlc.narg(user_id))
  and (sqlc.narg(only_id)::uuid is null or id = sqlc.narg(only_id))
  and (sqlc.narg(type)::key_type is null or type = sqlc.narg(type))
order by created_at desc, id desc
limit @max_rows offset @skip_rows;

-- name: CountAPIKeys :one
select count(*)
from api_keys
where (sqlc.narg(user_id)::uuid is null or user_id = sqlc.narg(user_id))
  and (sqlc.narg(only_id)::uuid is null or id = sqlc.narg(only_id))
  and (sqlc.narg(type)::key_type is null or type = sqlc.narg(type));

-- name: RevokeAPIKey :one
-- user_id null revokes anybody's key.
update api_keys
set revoked_at = coalesce(revoked_at, now())
where id = @id and (sqlc.narg(user_id)::uuid is null or user_id = sqlc.narg(user_id))
returning *;

-- name: TouchAPIKey :exec
update api_keys
set last_used_at = now()
where id = @id and (last_used_at is null or last_used_at < now() - interval '1 minute');

-- name: HasServiceKey :one
-- Whether any service key works at present.
select exists (
    select from api_keys
    where type = 'service' and revoked_at is null and (expires_at is null or expires_at > now()));

-- name: SweepAPIKeys :execrows
delete from api_keys where revoked_at < now() - interval '30 days' or expires_at < now() - interval '30 days';

-- name: ListSigningKeys :many
select * from signing_keys where retired_at is null or retired_at > now();
