-- name: ListRepohostConfigs :many
select * from repohost_configs order by lower(repository) limit @max_rows offset @skip_rows;

-- name: CountRepohostConfigs :one
select count(*) from repohost_configs;

-- name: GetRepohostConfig :one
select * from repohost_configs where id = @id;

-- name: FindRepohostConfig :one
-- Repository hosts do not tell names apart by case.
select * from repohost_configs where lower(repository) = lower(@repository);

-- name: LockRepohostConfig :one
select * from repohost_configs where lower(repository) = lower(@repository) for update;

-- name: ListRepohostSecrets :many
-- All secrets, for encrypting them anew with another key.
select id, webhook_secret, previous_secret, api_token from repohost_configs order by id for update;

-- name: SetRepohostSecrets :exec
update repohost_configs
set webhook_secret = @webhook_secret, previous_secret = @previous_secret, api_token = @api_token
where id = @id;

-- name: InsertRepohostConfig :one
insert into repohost_configs (
    id, repository, provider, webhook_secret, auto_create_on_pr, auto_delete_on_merge, auto_delete_on_close,
    close_grace, reset_on_push, default_data_clone_mode, default_branch_type, base_branches, ignore_drafts,
    allow_forks, max_branches, expires_in, api_url, api_token)
values (
    @id, @repository, @provider, @webhook_secret, @auto_create_on_pr, @auto_delete_on_merge, @auto_delete_on_close,
    @close_grace, @reset_on_push, @default_data_clone_mode, @default_branch_type, @base_branches, @ignore_drafts,
    @allow_forks, @max_branches, @expires_in, @api_url, @api_token)
returning *;

-- name: UpdateRepohostConfig :one
update repohost_configs
set repository = @repository, provider = @provider, webhook_secret = @webhook_secret, previous_secret = @previous_secret,
    previous_secret_until = @previous_secret_until, auto_create_on_pr = @auto_create_on_pr,
    auto_delete_on_merge = @auto_delete_on_merge, auto_delete_on_close = @auto_delete_on_close,
    close_grace = @close_grace, reset_on_push = @reset_on_push,
    default_data_clone_mode = @default_data_clone_mode, default_branch_type = @default_branch_type,
    base_branches = @base_branches, ignore_drafts = @ignore_drafts, allow_forks = @allow_forks,
    max_branches = @max_branches, expires_in = @expires_in, api_url = @api_url, api_token = @api_token,
    last_report_error = @last_report_error, updated_at = now()
where id = @id
returning *;

-- name: DeleteRepohostConfig :execrows
delete from repohost_configs where lower(repository) = lower(@repository);

-- name: TouchRepohostConfig :exec
update repohost_configs set last_delivery_at = now() where id = @id;

-- name: SetRepohostReportError :exec
update repohost_configs
set last_report_error = sqlc.narg(last_report_error)
where id = @id and last_report_error is distinct from sqlc.narg(last_report_error);

-- name: DropOldRepohostSecrets :exec
-- A secret that is not accepted any more need not be kept.
update repohost_configs
set previous_secret = null, previous_secret_until = null
where previous_secret_until < now();

-- name: InsertRepohostDelivery :one
-- No row when the delivery, or its body, came before.
insert into repohost_deliveries (id, config_id, provider, delivery_id, body_hash, event, action, pr_number, status, reason)
values (@id, @config_id, @provider, @delivery_id, @body_hash, @event, @action, @pr_number, @status, @reason)
on conflict do nothing
returning *;

-- name: FindRepohostDelivery :one
-- The delivery that another repeats.
select *
from repohost_deliveries
where config_id = @config_id and (provider = @provider and delivery_id = @delivery_id or body_hash = @body_hash)
order by received_at
limit 1;

-- name: SetRepohostDelivery :one
update repohost_deliveries
set status = @status, reason = @reason, pull_request_id = @pull_request_id, version = @version
where id = @id
returning *;

-- name: FinishRepohostDeliveries :exec
-- Says of the deliveries that led to work how it ended.
update repohost_deliveries
set status = @status, reason = @reason
where pull_request_id = @pull_request_id::uuid and status in ('accepted', 'failed') and version <= @version;

-- name: ListRepohostDeliveries :many
select d.*, c.repository, p.branch_slug
from repohost_deliveries d
join repohost_configs c on c.id = d.config_id
left join repohost_pull_requests p on p.id = d.pull_request_id
where (sqlc.narg(repository)::text is null or lower(c.repository) = lower(sqlc.narg(repository)))
  and (sqlc.narg(status)::repohost_delivery_status is null or d.status = sqlc.narg(status))
order by d.received_at desc, d.id desc
limit @max_rows offset @skip_rows;

-- name: CountRepohostDeliveries :one
select count(*)
from repohost_deliveries d
join repohost_configs c on c.id = d.config_id
where (sqlc.narg(repository)::text is null or lower(c.repository) = lower(sqlc.narg(repository)))
  and (sqlc.narg(status)::repohost_delivery_status is null or d.status = sqlc.narg(status));

-- name: SweepRepohostDeliveries :execrows
-- Forgets old deliveries, but none of a pull request that is open: the newest of those would count if it came again.
delete from repohost_deliveries d
where d.received_at < now() - interval '30 days'
  and not exists (select from repohost_pull_requests p where p.id = d.pull_request_id and p.state = 'open');

-- name: EnsurePullRequest :exec
-- Makes the row of a pull request that was not heard of before, so that it can be locked. version 0 says that no event
-- was applied.
insert into repohost_pull_requests (id, config_id, number, provider, state, url, base_ref, head_sha, fork, draft, event_at)
values (@id, @config_id, @number, @provider, 'open', '', '', '', false, false, '0001-01-01 00:00:00+00')
on conflict (config_id, number) do nothing;

-- name: LockPullRequest :one
select * from repohost_pull_requests where config_id = @config_id and number = @number for update;

-- name: GetPullRequest :one
select sqlc.embed(p), sqlc.embed(c)
from repohost_pull_requests p
join repohost_configs c on c.id = p.config_id
where p.id = @id;

-- name: ApplyPullRequestEvent :one
-- Takes over what an event says. The first seconds of the lease are the queued job's.
update repohost_pull_requests
set provider = @provider, state = @state, url = @url, base_ref = @base_ref, head_sha = @head_sha, fork = @fork, draft = @draft,
    event_at = @event_at,
    closed_at = case when @state::pull_request_state = 'open' then null else coalesce(closed_at, now()) end,
    version = version + 1,
    push_version = case when @pushed::boolean then version + 1 else push_version end,
    lease_until = now() + interval '30 seconds'
where id = @id
returning *;

-- name: KeepPullRequestLease :exec
update repohost_pull_requests set lease_until = now() + make_interval(secs => @seconds) where id = @id;

-- name: FinishPullRequest :exec
-- Says that the work for the events up to the version is done. Work for later ones stays due.
update repohost_pull_requests
set done_version = greatest(done_version, @version), push_done = greatest(push_done, @push_done), grace_until = @grace_until,
    branch_slug = coalesce(sqlc.narg(branch_slug), branch_slug), problem = @problem,
    report_at = case when @report::boolean then now() + interval '30 seconds' else report_at end
where id = @id;

-- name: ClaimDuePullRequests :many
-- Pull requests with work that no job seems to do. Each caller gets others.
update repohost_pull_requests
set lease_until = now() + interval '30 seconds'
where id in (
    select id
    from repohost_pull_requests
    where version > done_version and lease_until < now()
    order by lease_until
    limit 100
    for update skip locked)
returning id;

-- name: ClaimDueReports :many
update repohost_pull_requests
set report_at = now() + interval '60 seconds'
where id in (
    select id
    from repohost_pull_requests
    where report_at < now()
    order by report_at
    limit 100
    for update skip locked)
returning id;

-- name: AskAgain :many
-- Makes the work of open pull requests that lack their branch due again: those of one configuration at once, since it
-- changed, and all of them once a minute, since there may be room by now.
update repohost_pull_requests
set version = version + 1, lease_until = now() + interval '30 seconds'
where state = 'open' and problem is not null and version = done_version
  and case when sqlc.narg(config_id)::uuid is null then lease_until < now() - interval '1 minute'
           else config_id = sqlc.narg(config_id) end
returning id;

-- name: AskAgainFor :execrows
-- Makes the work of one pull request due again, since somebody sent a delivery anew that had failed.
update repohost_pull_requests
set version = version + 1, lease_until = now() + interval '30 seconds'
where id = @id and problem is not null;

-- name: FinishReport :exec
-- Says what was reported and when to look again, unless another report was asked for meanwhile.
update repohost_pull_requests
set reported = @reported,
    report_at = case
        when report_at is distinct from @seen_report_at then report_at
        when @again::boolean then now() + make_interval(secs => @seconds)
    end
where id = @id;

-- name: KeepReportLease :one
-- Keeps others from making the same report, and tells by which time it is known.
update repohost_pull_requests set report_at = now() + make_interval(secs => @seconds) where id = @id returning report_at;

-- name: SetCommentID :exec
update repohost_pull_requests set comment_id = @comment_id where id = @id;

-- name: SweepPullRequests :execrows
-- Forgets pull requests that were closed long ago, when deliveries about them are no longer remembered either.
delete from repohost_pull_requests
where state <> 'open' and closed_at < now() - interval '90 days' and version = done_version;

-- name: ListBranchesOfPullRequest :many
select *
from branches
where lower(repohost_repo) = lower(@repository) and repohost_pr_number = @number::integer
  and deleted_at is null and status <> 'deleting'
order by created_at, id;

-- name: CountBranchesOfRepository :one
select count(*)
from branches
where lower(repohost_repo) = lower(@repository) and repohost_pr_number is not null and deleted_at is null and status <> 'deleting';

-- name: SetBranchExpiry :one
update branches
set expires_at = sqlc.narg(expires_at), updated_at = now()
where id = @id and deleted_at is null and not is_main and status <> 'deleting'
returning *;
