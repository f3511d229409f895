-- name: InsertMailToken :one
insert into mail_tokens (
    id, purpose, hash, email, user_id, create_user, password_hash, user_metadata, redirect_to, code_challenge, expires_at)
values (
    @id, @purpose, @hash, @email, @user_id, @create_user, @password_hash, @user_metadata, @redirect_to, @code_challenge,
    now() + make_interval(secs => @lifetime_seconds))
returning *;

-- name: GetMailToken :one
select * from mail_tokens where id = @id and used_at is null and expires_at > now();

-- name: SetMailTokenHash :execrows
-- Gives the request the token that goes out by mail; a token of an earlier try that failed stops working.
update mail_tokens set hash = @hash where id = @id and used_at is null and expires_at > now();

-- name: PeekMailToken :one
select * from mail_tokens where hash = @hash and used_at is null and expires_at > now();

-- name: SpendMailToken :one
update mail_tokens set used_at = now() where hash = @hash and used_at is null and expires_at > now() returning *;

-- name: SweepMailTokens :exec
delete from mail_tokens where expires_at < now() - interval '1 day';

-- name: TakeRate :one
-- Takes one from a limit of burst attempts that refills one each interval; allowed says whether there was one. The wait
-- is how long until there is one.
with taken as (
    insert into rate_limits as r (key, tat)
    values (@key, clock_timestamp() + make_interval(secs => @interval_seconds))
    on conflict (key) do update
    set tat = greatest(r.tat, clock_timestamp()) + make_interval(secs => @interval_seconds)
    where r.tat + make_interval(secs => @interval_seconds) <= clock_timestamp() + make_interval(secs => @burst_seconds)
    returning tat
)
select exists (select from taken)::boolean as allowed,
    coalesce(extract(epoch from (select l.tat from rate_limits l where l.key = @key) + make_interval(secs => @interval_seconds)
        - make_interval(secs => @burst_seconds) - clock_timestamp()), 0)::double precision as wait_seconds;

-- name: ResetRate :exec
delete from rate_limits where key = @key;

-- name: SweepRates :exec
delete from rate_limits where tat < now();
