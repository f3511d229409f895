-- Whoever locks several rows locks users first, then sessions, clients, requests, grants, codes and tokens. That is also
-- the order in which a deletion comes by them.

-- name: InsertOAuthClient :one
insert into oauth_clients (id, kind, name, redirect_uris, scope, uri, logo_uri, software_id, software_version)
values (@id, 'registered', @name, @redirect_uris, @scope, @uri, @logo_uri, @software_id, @software_version)
returning *;

-- name: PutDocumentClient :one
-- Keeps what a client's metadata document says.
insert into oauth_clients (id, kind, name, redirect_uris, scope, uri, logo_uri, expires_at)
values (@id, 'document', @name, @redirect_uris, @scope, @uri, @logo_uri, @expires_at)
on conflict (id) do update
set name = excluded.name, redirect_uris = excluded.redirect_uris, scope = excluded.scope, uri = excluded.uri,
    logo_uri = excluded.logo_uri, expires_at = excluded.expires_at
returning *;

-- name: GetOAuthClient :one
select * from oauth_clients where id = @id;

-- name: TouchOAuthClient :exec
update oauth_clients
set last_used_at = now()
where id = @id and (last_used_at is null or last_used_at < now() - interval '5 minutes');

-- name: ListOAuthClients :many
-- Newest first, each with the number of grants that are in use.
select sqlc.embed(c),
    (select count(*) from oauth_grants g
     where g.client_id = c.id and g.revoked_at is null and g.expires_at > now() and g.last_used_at is not null) as grants
from oauth_clients c
order by c.created_at desc, c.id desc
limit @max_rows offset @skip_rows;

-- name: CountOAuthClients :one
select count(*) from oauth_clients;

-- name: DeleteOAuthClient :one
-- Its grants and all that came of them go with it.
delete from oauth_clients where id = @id returning *;

-- name: InsertOAuthRequest :one
insert into oauth_requests (id, browser, client_id, redirect_uri, redirect_named, scopes, state, resource, code_challenge, sign_in_again, expires_at)
values (@id, @browser, @client_id, @redirect_uri, @redirect_named, @scopes, @state, @resource, @code_challenge, @sign_in_again,
    now() + make_interval(secs => @lifetime_seconds))
returning *;

-- name: GetOAuthRequest :one
-- A request of the browser, whatever became of it.
select sqlc.embed(r), sqlc.embed(c), (r.used_at is null and r.expires_at > now())::boolean as pending
from oauth_requests r
join oauth_clients c on c.id = r.client_id
where r.id = @id and r.browser = @browser;

-- name: GetBrowserUser :one
-- Who is signed in in the browser.
select sqlc.embed(u), s.id as session_id, b.created_at as signed_in_at
from oauth_browsers b
join sessions s on s.id = b.session_id
join users u on u.id = s.user_id
where b.hash = @browser and b.expires_at > now() and s.ended_at is null and s.expires_at > now() and u.disabled_at is null;

-- name: LockOAuthRequest :one
-- What an approval needs: the pending request, its client, and who is signed in. The locks keep the user from being
-- changed, the session from ending and the client from being deleted until it is done.
select sqlc.embed(r), sqlc.embed(u), c.name as client_name
from oauth_requests r
join oauth_clients c on c.id = r.client_id
join oauth_browsers b on b.hash = r.browser
join sessions s on s.id = b.session_id
join users u on u.id = s.user_id
where r.id = @id and r.browser = @browser and r.used_at is null and r.expires_at > now()
  and b.expires_at > now() and s.ended_at is null and s.expires_at > now() and u.disabled_at is null
  and (not r.sign_in_again or b.created_at >= r.created_at)
for share of u
for share of s
for key share of c
for update of r;

-- name: UseOAuthRequest :one
-- Spends a request; no row when it was spent, has expired, or is another browser's.
update oauth_requests
set used_at = now()
where id = @id and browser = @browser and used_at is null and expires_at > now()
returning *;

-- name: HoldClientsOfBrowser :exec
-- Keeps the clients of a browser's pending requests from being deleted until the end of the transaction.
select c.id
from oauth_requests r
join oauth_clients c on c.id = r.client_id
where r.browser = @browser and r.used_at is null
for key share of c;

-- name: MoveOAuthRequests :exec
-- Gives a browser's pending requests to the secret that it has after signing in.
update oauth_requests set browser = @new_browser where browser = @old_browser and used_at is null;

-- name: TakeBrowserSession :one
-- Makes a session that of a browser, which has no use for its refresh token. It ends with the browser's time.
with spent as (
    delete from refresh_tokens t where t.hash = @refresh_hash returning t.session_id
)
update sessions s
set expires_at = least(s.expires_at, now() + make_interval(secs => @lifetime_seconds))
from spent
where s.id = spent.session_id
returning s.id;

-- name: InsertOAuthBrowser :exec
insert into oauth_browsers (hash, session_id, expires_at)
values (@hash, @session_id, now() + make_interval(secs => @lifetime_seconds));

-- name: DeleteOAuthBrowser :one
delete from oauth_browsers b
where b.hash = @hash
returning b.session_id, (select s.user_id from sessions s where s.id = b.session_id)::uuid as user_id;

-- name: InsertOAuthGrant :exec
insert into oauth_grants (id, client_id, user_id, scopes, resource, expires_at)
values (@id, @client_id, @user_id, @scopes, @resource, now() + make_interval(secs => @lifetime_seconds));

-- name: InsertOAuthCode :exec
insert into oauth_codes (hash, grant_id, redirect_uri, redirect_named, code_challenge, expires_at)
values (@hash, @grant_id, @redirect_uri, @redirect_named, @code_challenge, now() + make_interval(secs => @lifetime_seconds));

-- name: LockOAuthCode :one
-- A code with its grant and what its user is at present. Redemptions and refreshes of one grant take turns, and the user
-- is not changed meanwhile. Whether the times have come is asked of the clock, since waiting for the turn takes time.
select sqlc.embed(c), g.client_id, g.user_id, g.scopes, g.resource, (g.revoked_at is not null)::boolean as revoked,
    (u.role = 'admin')::boolean as user_is_admin, (u.disabled_at is not null)::boolean as user_disabled,
    (c.expires_at <= clock_timestamp())::boolean as expired,
    coalesce(a.last_used_at < now() - interval '5 minutes', true)::boolean as client_untouched
from oauth_codes c
join oauth_grants g on g.id = c.grant_id
join users u on u.id = g.user_id
join oauth_clients a on a.id = g.client_id
where c.hash = @hash
for share of u
for update of g
for update of c;

-- name: UseOAuthCode :execrows
-- Spends the code; no row when somebody else did.
update oauth_codes set used_at = clock_timestamp() where hash = @hash and used_at is null;

-- name: LockOAuthRefreshToken :one
-- A refresh token with its grant and what its user is at present, as LockOAuthCode has them.
select sqlc.embed(t), g.client_id, g.user_id, g.scopes as grant_scopes, g.resource,
    (g.revoked_at is not null)::boolean as revoked, (g.expires_at <= clock_timestamp())::boolean as grant_expired,
    (u.role = 'admin')::boolean as user_is_admin, (u.disabled_at is not null)::boolean as user_disabled,
    (t.expires_at <= clock_timestamp())::boolean as expired, a.name as client_name,
    coalesce(a.last_used_at < now() - interval '5 minutes', true)::boolean as client_untouched
from oauth_tokens t
join oauth_grants g on g.id = t.grant_id
join users u on u.id = g.user_id
join oauth_clients a on a.id = g.client_id
where t.hash = @hash and t.kind = 'refresh'
for share of u
for update of g
for update of t;

-- name: RotateOAuthToken :execrows
-- Spends the refresh token; no row when somebody else did.
update oauth_tokens
set rotated_at = clock_timestamp()
where hash = @hash and kind = 'refresh' and rotated_at is null;

-- name: LookAtOAuthReuse :one
-- How long ago a refresh token was used, and whether one that was given for it was used as well.
select extract(epoch from clock_timestamp() - t.rotated_at)::double precision as age_seconds,
    exists (select from oauth_tokens successor where successor.parent = t.hash and successor.rotated_at is not null) as successor_used
from oauth_tokens t
where t.hash = @hash and t.rotated_at is not null;

-- name: IssueOAuthTokens :exec
-- Stores a pair of tokens, and lets the grant live as long as they do.
with issued as (
    insert into oauth_tokens (hash, kind, grant_id, generation, parent, scopes, expires_at)
    values
        (@access_hash, 'access', @grant_id, @generation, null, @access_scopes, clock_timestamp() + make_interval(secs => @access_seconds::double precision)),
        (@refresh_hash, 'refresh', @grant_id, @generation, @parent, '{}', clock_timestamp() + make_interval(secs => @refresh_seconds::double precision))
)
update oauth_grants g
set last_used_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => greatest(@access_seconds::double precision, @refresh_seconds::double precision))
where g.id = @grant_id;

-- name: RevokeOAuthGrant :one
-- Ends a grant with all that came of it. user_id null ends anybody's. No row when there is no such grant that goes on.
update oauth_grants g
set revoked_at = now(), revoked_reason = @reason
where g.id = @id and g.revoked_at is null
  and (sqlc.narg(user_id)::uuid is null or g.user_id = sqlc.narg(user_id))
returning g.*, (select c.name from oauth_clients c where c.id = g.client_id)::text as client_name;

-- name: RevokeUserOAuthGrants :execrows
-- Ends all grants of a user with all that came of them, and records that.
with revoked as (
    update oauth_grants g
    set revoked_at = now(), revoked_reason = @reason::text
    where g.user_id = @user_id and g.revoked_at is null
    returning g.id, g.client_id
)
insert into audit_log (area, action, outcome, user_id, client_id, client_name, details)
select 'oauth', 'revoke', 'ok', @user_id, r.client_id, c.name, jsonb_build_object('grant_id', r.id, 'reason', @reason::text)
from revoked r
join oauth_clients c on c.id = r.client_id;

-- name: GetOAuthToken :one
-- A token of either kind with whose it is.
select t.kind, t.grant_id, g.client_id, g.user_id, c.name as client_name
from oauth_tokens t
join oauth_grants g on g.id = t.grant_id
join oauth_clients c on c.id = g.client_id
where t.hash = @hash;

-- name: RevokeOAuthAccessToken :execrows
update oauth_tokens set revoked_at = now() where hash = @hash and kind = 'access' and revoked_at is null;

-- name: VerifyOAuthToken :one
-- An access token with its grant and what its user is at present.
select t.grant_id, t.scopes, (t.revoked_at is not null or g.revoked_at is not null)::boolean as revoked,
    extract(epoch from t.expires_at - now())::double precision as remaining_seconds,
    g.client_id, g.resource, coalesce(g.last_used_at < now() - interval '5 minutes', true)::boolean as untouched,
    u.id as user_id, u.email, (u.email_verified_at is not null)::boolean as email_verified,
    (u.role = 'admin')::boolean as is_admin, (u.disabled_at is not null)::boolean as disabled, u.app_metadata, u.user_metadata
from oauth_tokens t
join oauth_grants g on g.id = t.grant_id
join users u on u.id = g.user_id
where t.hash = @hash and t.kind = 'access';

-- name: TouchOAuthGrant :exec
-- Is for statements of their own: it does not wait for the disk.
update oauth_grants
set last_used_at = now()
where id = @id and last_used_at < now() - interval '5 minutes' and set_config('synchronous_commit', 'off', true) = 'off';

-- name: ListOAuthGrants :many
-- The applications that a user has connected.
select sqlc.embed(g), sqlc.embed(c)
from oauth_grants g
join oauth_clients c on c.id = g.client_id
where g.user_id = @user_id and g.revoked_at is null and g.expires_at > now() and g.last_used_at is not null
order by g.created_at desc, g.id desc
limit 1000;

-- name: SweepOAuthRequests :exec
delete from oauth_requests
where id in (select r.id from oauth_requests r where r.expires_at < now() limit 10000 for update skip locked);

-- name: SweepOAuthBrowsers :exec
delete from oauth_browsers
where hash in (
    select b.hash
    from oauth_browsers b
    join sessions s on s.id = b.session_id
    where b.expires_at < now() or s.ended_at is not null
    limit 10000
    for update of b skip locked);

-- name: SweepOAuthTokens :exec
-- Refresh tokens stay for a while after their time, so that reuse is known for what it is.
delete from oauth_tokens
where hash in (
    select t.hash
    from oauth_tokens t
    where t.expires_at < now() - case t.kind when 'access' then interval '1 hour' else make_interval(secs => @refresh_seconds) end
      and t.expires_at < now() - interval '1 hour'
    limit 10000
    for update skip locked);

-- name: SweepOAuthGrants :exec
-- Grants that have ended go, with their codes and tokens, when nobody would notice reuse any more; those of which the
-- code was never redeemed within the hour.
delete from oauth_grants
where id in (
    select g.id
    from oauth_grants g
    where g.expires_at < now() - make_interval(secs => @refresh_seconds)
       or g.revoked_at < now() - make_interval(secs => @refresh_seconds)
       or g.expires_at < now() - interval '1 hour' and g.last_used_at is null
    limit 1000
    for update skip locked);

-- name: SweepOAuthClients :many
-- Clients that nobody approved within a day of their registration go, and those that nobody has used for 90 days. One
-- with a grant that goes on never does. The conditions on last_used_at are read again if an approval comes in between.
delete from oauth_clients c
where (c.last_used_at is null and c.created_at < now() - interval '1 day' or c.last_used_at < now() - interval '90 days')
  and not exists (select from oauth_grants g where g.client_id = c.id and g.revoked_at is null and g.expires_at > now())
  and not exists (select from oauth_requests r where r.client_id = c.id and r.used_at is null and r.expires_at > now())
returning c.id;
