-- name: InsertAudit :exec
-- Is for statements of their own: that what was done is on record a moment later costs no wait for the disk. In a
-- transaction it would take that from everything in it; RecordAudit is for those.
insert into audit_log (area, action, outcome, user_id, key_id, client_id, client_name, branch, duration_ms, ip, request_id, details)
select @area::text, @action::text, @outcome::text, sqlc.narg(user_id)::uuid, sqlc.narg(key_id)::uuid, sqlc.narg(client_id)::text,
    coalesce(sqlc.narg(client_name)::text, (select c.name from oauth_clients c where c.id = sqlc.narg(client_id)::text)),
    sqlc.narg(branch)::text, sqlc.narg(duration_ms)::double precision, sqlc.narg(ip)::text, sqlc.narg(request_id)::text,
    coalesce(@details::jsonb, '{}')
where set_config('synchronous_commit', 'off', true) = 'off';

-- name: RecordAudit :exec
-- Belongs into the transaction of what it tells of.
insert into audit_log (area, action, outcome, user_id, client_id, client_name, ip, details)
values (@area, @action, @outcome, @user_id, @client_id, @client_name, @ip, @details);

-- name: ListAudit :many
-- Filters that are null let everything pass. Newest first.
select *
from audit_log
where (sqlc.narg(area)::text is null or area = sqlc.narg(area))
  and (sqlc.narg(action)::text is null or action = sqlc.narg(action))
  and (sqlc.narg(user_id)::uuid is null or user_id = sqlc.narg(user_id))
  and (sqlc.narg(client_id)::text is null or client_id = sqlc.narg(client_id))
  and (sqlc.narg(since)::timestamptz is null or at >= sqlc.narg(since))
order by at desc, id desc
limit @max_rows offset @skip_rows;

-- name: CountAudit :one
select count(*)
from audit_log
where (sqlc.narg(area)::text is null or area = sqlc.narg(area))
  and (sqlc.narg(action)::text is null or action = sqlc.narg(action))
  and (sqlc.narg(user_id)::uuid is null or user_id = sqlc.narg(user_id))
  and (sqlc.narg(client_id)::text is null or client_id = sqlc.narg(client_id))
  and (sqlc.narg(since)::timestamptz is null or at >= sqlc.narg(since));

-- name: SweepAudit :execrows
-- A part at a time, so that no sweep holds the table for long.
delete from audit_log
where id in (select id from audit_log where at < now() - interval '90 days' limit 10000 for update skip locked);
