-- name: InsertSigningKey :exec
insert into signing_keys (kid, public_jwk) values (@kid, @public_jwk);

-- name: InsertSigningKeySecret :exec
insert into signing_key_secrets (kid, private_jwk, encrypted, activates_at)
values (@kid, @private_jwk, @encrypted, now() + make_interval(secs => @delay_seconds));

-- name: GetCurrentSigningKey :one
-- The newest key that may sign by now.
select s.*, k.created_at
from signing_key_secrets s
join signing_keys k using (kid)
where s.activates_at <= now() and (k.retired_at is null or k.retired_at > now())
order by s.activates_at desc, s.kid
limit 1;

-- name: ListSigningKeySecrets :many
select s.* from signing_key_secrets s join signing_keys k using (kid) where k.retired_at is null or k.retired_at > now();

-- name: SetSigningKeySecret :exec
update signing_key_secrets set private_jwk = @private_jwk, encrypted = @encrypted where kid = @kid;

-- name: RetireSigningKeys :exec
-- Retires all keys but one after a time.
update signing_keys
set retired_at = now() + make_interval(secs => @delay_seconds)
where kid <> @kept_kid and (retired_at is null or retired_at > now() + make_interval(secs => @delay_seconds));

-- name: ListPublishedKeys :many
-- Keys that verifiers should know, the newest first.
select k.*, s.activates_at
from signing_keys k
left join signing_key_secrets s using (kid)
where k.retired_at is null or k.retired_at > now()
order by k.created_at desc, k.kid;

-- name: LockSigningKeys :exec
select pg_advisory_xact_lock(hashtextextended('bough.signing_keys', 0));

-- name: NewestSigningKeyAge :one
-- Seconds since the newest key that signs, or will, was made; -1 when there is none.
select coalesce(extract(epoch from now() - max(k.created_at)), -1)::double precision
from signing_key_secrets s
join signing_keys k using (kid)
where k.retired_at is null or k.retired_at > now();

-- name: SweepSigningKeys :exec
delete from signing_keys where retired_at < now() - interval '30 days';
