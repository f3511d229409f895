-- name: InsertWebhook :one
insert into webhooks (id, url, events, description, enabled, disabled_reason, created_by)
values (@id, @url, @events, @description, @enabled::boolean, case when @enabled then null else 'manual'::webhook_disabled_reason end, @created_by)
returning *;

-- name: ListWebhooks :many
select *
from webhooks
order by created_at desc, id desc
limit @max_rows offset @skip_rows;

-- name: CountWebhooks :one
select count(*) from webhooks;

-- name: GetWebhook :one
select * from webhooks where id = @id;

-- name: LockWebhook :one
-- Whoever changes a webhook and its deliveries locks the webhook first. Transactions that publish events do not wait for it.
select * from webhooks where id = @id for no key update;

-- name: UpdateWebhook :one
-- Switched on again, or moved, an endpoint has as long to recover as a new one.
update webhooks
set url = coalesce(sqlc.narg(url), url),
    events = coalesce(sqlc.narg(events)::text[], events),
    description = coalesce(sqlc.narg(description), description),
    enabled = coalesce(sqlc.narg(enabled), enabled),
    disabled_reason = case
        when sqlc.narg(enabled) then null
        when not sqlc.narg(enabled) then coalesce(disabled_reason, 'manual')
        else disabled_reason
    end,
    failing_since = case when sqlc.narg(enabled) and not enabled or sqlc.narg(url) <> url then null else failing_since end,
    updated_at = now()
where id = @id
returning *;

-- name: DisableWebhook :exec
update webhooks set enabled = false, disabled_reason = @reason, updated_at = now() where id = @id and enabled;

-- name: NoteWebhookSuccess :exec
update webhooks set last_success_at = now(), failing_since = null where id = @id;

-- name: NoteWebhookFailure :one
-- Returns for how many seconds there were nothing but failures.
update webhooks
set failing_since = coalesce(failing_since, now())
where id = @id
returning extract(epoch from now() - failing_since)::float8;

-- name: DeleteWebhook :execrows
delete from webhooks where id = @id;

-- name: InsertWebhookSecret :exec
insert into webhook_secrets (id, webhook_id, secret) values (@id, @webhook_id, @secret);

-- name: ListWebhookSecrets :many
-- The secrets that sign, the current one first.
select *
from webhook_secrets
where webhook_id = @webhook_id and (expires_at is null or expires_at > now())
order by expires_at desc nulls first, created_at desc;

-- name: RetireWebhookSecrets :exec
-- Lets the current secret end. The newest keep of those that still sign stay, the others go.
with ranked as (
    select w.id, row_number() over (order by w.created_at desc) as age
    from webhook_secrets w
    where w.webhook_id = @webhook_id
), gone as (
    delete from webhook_secrets s
    using ranked r
    where s.id = r.id and r.age > @keep::integer
)
update webhook_secrets s
set expires_at = now() + make_interval(secs => @overlap_seconds)
from ranked r
where s.id = r.id and r.age <= @keep::integer and s.expires_at is null;

-- name: ListAllWebhookSecrets :many
select * from webhook_secrets order by id for update;

-- name: SetWebhookSecret :exec
update webhook_secrets set secret = @secret where id = @id;

-- name: SweepWebhookSecrets :exec
delete from webhook_secrets where expires_at < now();

-- name: InsertEvent :exec
insert into events (id, type, payload, created_at) values (@id, @type, @payload, @created_at);

-- name: FanOut :many
-- Makes a delivery for each endpoint that wants the event. The lock passes over an endpoint that is being removed; without
-- it the change that the event tells of would fail on the foreign key.
insert into webhook_deliveries (id, webhook_id, event_id, event_type)
select gen_random_uuid(), w.id, @event_id, @event_type
from (
    select id
    from webhooks
    where enabled and (events @> array[@event_type::text] or events @> array['*'])
    for key share
) w
returning id;

-- name: InsertDelivery :one
insert into webhook_deliveries (id, webhook_id, event_id, event_type)
values (@id, @webhook_id, @event_id, @event_type)
returning *;

-- name: ClaimDelivery :one
-- Gives a delivery that is due to one worker, for the time of a try.
update webhook_deliveries
set lease_until = clock_timestamp() + make_interval(secs => @lease_seconds)
where id = @id and status = 'pending' and due_at <= clock_timestamp() and (lease_until is null or lease_until < clock_timestamp())
returning *;

-- name: DeliveryWait :one
-- How many seconds a pending delivery that cannot be claimed has to wait.
select extract(epoch from greatest(due_at, lease_until) - clock_timestamp())::float8 as seconds
from webhook_deliveries
where id = @id and status = 'pending';

-- name: GetEvent :one
select * from events where id = @id;

-- name: RecordAttempt :one
-- Ends a try. No row when another worker has taken the delivery over, or it is gone. Of many attempts the latest stay.
update webhook_deliveries
set attempts = case when jsonb_array_length(attempts) >= @keep::integer then attempts - 0 else attempts end || @attempt::jsonb,
    tries = tries + 1,
    status = @status,
    due_at = case when @status = 'pending'::delivery_status then now() + make_interval(secs => @delay_seconds) else due_at end,
    delivered_at = case when @status = 'delivered'::delivery_status then now() else delivered_at end,
    lease_until = null
where id = @id and lease_until = @lease and status = 'pending'
returning *;

-- name: ReleaseDelivery :exec
-- Gives a claimed delivery back untried.
update webhook_deliveries set lease_until = null where id = @id and lease_until = @lease;

-- name: CancelDeliveries :exec
update webhook_deliveries set status = 'cancelled', lease_until = null where webhook_id = @webhook_id and status = 'pending';

-- name: Redeliver :one
-- Begins a delivery anew; no row while a try is under way.
update webhook_deliveries
set status = 'pending', tries = 0, due_at = now(), lease_until = null, delivered_at = null
where id = @id and (lease_until is null or lease_until < now())
returning *;

-- name: ClaimLostDeliveries :many
-- Deliveries that should have been tried a while ago: the process that was to do so is gone. Each caller gets others.
update webhook_deliveries
set due_at = now(), lease_until = null
where id in (
    select id
    from webhook_deliveries
    where status = 'pending' and due_at < now() - make_interval(secs => @grace_seconds) and (lease_until is null or lease_until < now())
    order by due_at
    limit 100
    for update skip locked)
returning id;

-- name: ListDeliveries :many
select sqlc.embed(d), e.payload
from webhook_deliveries d
join events e on e.id = d.event_id
where (sqlc.narg(id)::uuid is null or d.id = sqlc.narg(id))
  and (sqlc.narg(webhook_id)::uuid is null or d.webhook_id = sqlc.narg(webhook_id))
  and (sqlc.narg(status)::delivery_status is null or d.status = sqlc.narg(status))
  and (sqlc.narg(event_type)::text is null or d.event_type = sqlc.narg(event_type))
order by d.created_at desc, d.id desc
limit @max_rows offset @skip_rows;

-- name: CountDeliveries :one
select count(*)
from webhook_deliveries d
where (sqlc.narg(id)::uuid is null or d.id = sqlc.narg(id))
  and (sqlc.narg(webhook_id)::uuid is null or d.webhook_id = sqlc.narg(webhook_id))
  and (sqlc.narg(status)::delivery_status is null or d.status = sqlc.narg(status))
  and (sqlc.narg(event_type)::text is null or d.event_type = sqlc.narg(event_type));

-- name: CountPendingDeliveries :one
select count(*) from webhook_deliveries where status = 'pending';

-- name: SweepDeliveries :execrows
delete from webhook_deliveries where status <> 'pending' and created_at < now() - make_interval(secs => @keep_seconds);

-- name: SweepEvents :execrows
delete from events e
where e.created_at < now() - make_interval(secs => @keep_seconds)
  and not exists (select from webhook_deliveries d where d.event_id = e.id);

-- name: ClaimExpiring :many
-- Branches whose expiry is to be announced. Each caller gets others, and each expiry goes to one caller only.
update branches
set expiry_announced = expires_at
where id in (
    select id
    from branches
    where deleted_at is null and status in ('ready', 'resetting', 'error') and expiry_announced is distinct from expires_at
      and expires_at > now() and expires_at <= now() + make_interval(secs => @notice_seconds)
    order by expires_at
    limit 100
    for update skip locked)
returning *;
