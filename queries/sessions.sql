-- name: InsertSession :one
insert into sessions (id, user_id, method, ip, network, user_agent, expires_at)
values (@id, @user_id, @method, @ip, @network, @user_agent, now() + make_interval(secs => @lifetime_seconds))
returning *;

-- name: InsertRefreshToken :exec
insert into refresh_tokens (hash, session_id, parent) values (@hash, @session_id, @parent);

-- name: GetRefreshToken :one
select t.*, s.user_id from refresh_tokens t join sessions s on s.id = t.session_id where t.hash = @hash;

-- name: LockSession :one
-- Refreshes of one session take turns.
select *, (ended_at is null and expires_at > now())::boolean as alive from sessions where id = @id for update;

-- name: UseRefreshToken :execrows
-- Spends the token; no row when somebody else did.
update refresh_tokens set used_at = clock_timestamp() where hash = @hash and used_at is null;

-- name: IsBenignReuse :one
-- Whether a used token is the one before the newest, used a moment ago, and the newest is not used yet: parallel
-- requests of one client do that.
select exists (
    select
    from refresh_tokens t
    join refresh_tokens successor on successor.parent = t.hash
    where t.hash = @hash
      and t.used_at > clock_timestamp() - make_interval(secs => @window_seconds)
      and successor.used_at is null);

-- name: ExtendSession :exec
update sessions
set refreshed_at = now(), expires_at = now() + make_interval(secs => @lifetime_seconds)
where id = @id;

-- name: ShareSession :one
-- Keeps a session from ending until the end of the transaction; no row when it has ended.
select id from sessions where id = @id and user_id = @user_id and ended_at is null and expires_at > now() for share;

-- name: GetSession :one
select * from sessions where id = @id and ended_at is null and expires_at > now();

-- name: ListSessions :many
select *
from sessions
where user_id = @user_id and ended_at is null and expires_at > now()
order by created_at desc, id desc
limit 100;

-- name: EndSessions :many
-- Ends the user's sessions: the one named, or all, or all but one. Access tokens are refused from now on.
with ended as (
    update sessions
    set ended_at = now()
    where user_id = @user_id and ended_at is null
      and (sqlc.narg(only_id)::uuid is null or id = sqlc.narg(only_id))
      and (sqlc.narg(keep_id)::uuid is null or id <> sqlc.narg(keep_id))
    returning id
)
insert into revocations (id, until)
select id, now() + make_interval(secs => @token_seconds) from ended
on conflict (id) do update set until = greatest(revocations.until, excluded.until)
returning id;

-- name: RevokeUser :exec
insert into revocations (id, until)
values (@id, now() + make_interval(secs => @token_seconds))
on conflict (id) do update set until = greatest(revocations.until, excluded.until);

-- name: UnrevokeUser :exec
delete from revocations where id = @id;

-- name: ListRevocations :many
select * from revocations where until > now();

-- name: SweepRevocations :exec
delete from revocations where until < now() - interval '1 minute';

-- name: SweepSessions :exec
delete from sessions where expires_at < now() - interval '30 days' or ended_at < now() - interval '30 days';

-- name: SweepRefreshTokens :exec
-- Of a live session the used tokens of long ago go; one of them that is presented is unknown then, and refused.
delete from refresh_tokens t
using sessions s
where s.id = t.session_id and t.used_at < now() - make_interval(secs => @lifetime_seconds);

-- name: KnowsNetwork :one
-- Whether the owner of the address signed in from the network not long ago. Whoever did so before the address was shown
-- to be theirs need not be the owner.
select exists (
    select
    from sessions s
    join users u on u.id = s.user_id
    where u.email = @email and s.network = @network and s.created_at > now() - interval '90 days'
      and (u.email_verified_at is null or s.created_at >= u.email_verified_at));
