-- name: EnsureMain :one
-- Makes the row of main, or follows a change of the main database's name.
insert into branches (id, name, slug, database_name, status, type, data_clone_mode, is_main, created_by)
values (@id, 'main', 'main', @database_name, 'ready', 'persistent', 'full_clone', true, '')
on conflict (is_main) where is_main do update set database_name = excluded.database_name
returning *;

-- name: LockBranchQuota :exec
-- Creations take their turn, so that counting and inserting are one step.
select pg_advisory_xact_lock(hashtextextended('bough.branch_quota', 0));

-- name: CountBranchQuota :one
-- A branch counts until its database is gone.
select count(*) as total, count(*) filter (where created_by = @created_by) as own
from branches
where deleted_at is null and not is_main;

-- name: InsertBranch :one
insert into branches (
    id, name, slug, database_name, status, type, data_clone_mode, parent_id, created_by, operation_by, expires_at,
    phase, generation, repohost_repo, repohost_pr_number, repohost_pr_url)
values (
    @id, @name, @slug, @database_name, 'creating', @type, @data_clone_mode, @parent_id, @created_by, @created_by, @expires_at,
    'queued', 0, @repohost_repo, @repohost_pr_number, @repohost_pr_url)
returning *;

-- name: GetBranchByID :one
-- Finds removed branches too; the caller looks at deleted_at.
select * from branches where id = @id;

-- name: GetBranchBySlug :one
select * from branches where slug = @slug and deleted_at is null and status <> 'deleting';

-- name: LockBranch :one
-- Keeps the branch from changing until the end of the transaction.
select * from branches where id = @id and deleted_at is null for update;

-- name: ShareBranch :one
-- Keeps the branch from being removed or changed until the end of the transaction.
select * from branches where id = @id and deleted_at is null for share;

-- name: GetAccessLevel :one
select level from branch_access where branch_id = @branch_id and user_id = @user_id;

-- name: ListBranches :many
-- viewer null sees all; a user sees what she made or was granted.
select b.*
from branches b
where b.deleted_at is null
  and (sqlc.narg(status)::branch_status is null or b.status = sqlc.narg(status))
  and (sqlc.narg(type)::branch_type is null or b.type = sqlc.narg(type))
  and (sqlc.narg(created_by)::text is null or b.created_by = sqlc.narg(created_by))
  and (sqlc.narg(viewer)::uuid is null
       or b.created_by = sqlc.narg(viewer)::text
       or exists (select from branch_access a where a.branch_id = b.id and a.user_id = sqlc.narg(viewer)))
order by b.created_at desc, b.id desc
limit @max_rows offset @skip_rows;

-- name: CountBranches :one
select count(*)
from branches b
where b.deleted_at is null
  and (sqlc.narg(status)::branch_status is null or b.status = sqlc.narg(status))
  and (sqlc.narg(type)::branch_type is null or b.type = sqlc.narg(type))
  and (sqlc.narg(created_by)::text is null or b.created_by = sqlc.narg(created_by))
  and (sqlc.narg(viewer)::uuid is null
       or b.created_by = sqlc.narg(viewer)::text
       or exists (select from branch_access a where a.branch_id = b.id and a.user_id = sqlc.narg(viewer)));

-- name: BeginOperation :one
-- Compare-and-swap into a status of work; no row when another operation holds the branch.
update branches
set status = @status, phase = 'queued', operation_by = @operation_by, updated_at = now(),
    lease_until = now() + interval '30 seconds'
where id = @id and deleted_at is null and not is_main and status::text = any (@from_status::text[])
returning *;

-- name: SetPhase :execrows
update branches
set phase = @phase, updated_at = now()
where id = @id and deleted_at is null and status = @status;

-- name: FinishClone :one
-- Ends a creation or a reset; no row when the branch is being deleted meanwhile.
update branches
set status = 'ready', phase = null, error_message = null, error_code = null, generation = @generation, updated_at = now(),
    reset_at = case when status = 'resetting' then now() else reset_at end
where id = @id and deleted_at is null and status = @status
returning *;

-- name: FailClone :one
-- Ends a creation or a reset that came to nothing; a reset whose branch still has its database becomes ready again.
update branches
set status = case when @usable::boolean then 'ready'::branch_status else 'error'::branch_status end,
    phase = null,
    error_message = case when @usable::boolean then null else @error_message::text end,
    error_code = case when @usable::boolean then null else sqlc.narg(error_code)::text end,
    updated_at = now()
where id = @id and deleted_at is null and status = @status
returning *;

-- name: MarkDatabaseMissing :one
-- A ready branch whose database is not there any more. The caller has locked the row.
update branches
set status = 'error', error_code = 'database_missing', error_message = @error_message::text, updated_at = now()
where id = @id and deleted_at is null and not is_main and status = 'ready'
returning *;

-- name: MarkDatabaseFound :one
-- The database of a branch that was missing is back under its name. The caller has locked the row.
update branches
set status = 'ready', error_code = null, error_message = null, updated_at = now()
where id = @id and deleted_at is null and status = 'error' and error_code = 'database_missing'
returning *;

-- name: FinishDelete :one
update branches
set deleted_at = now(), phase = null, updated_at = now()
where id = @id and deleted_at is null and status = 'deleting'
returning *;

-- name: UpdateBranch :one
update branches
set name = coalesce(sqlc.narg(name), name),
    type = coalesce(sqlc.narg(type), type),
    expires_at = case when @set_expiry::boolean then sqlc.narg(expires_at) else expires_at end,
    updated_at = now()
where id = @id and deleted_at is null and not is_main and status <> 'deleting'
returning *;

-- name: ListChildren :many
select * from branches where parent_id = @parent_id::uuid and deleted_at is null and status <> 'deleting' order by created_at for update;

-- name: OrphanChildren :exec
-- Hands a branch's children to its own parent.
update branches c
set parent_id = p.parent_id, updated_at = now()
from branches p
where p.id = @parent_id and c.parent_id = p.id;

-- name: ListExpired :many
select id
from branches
where expires_at <= now() and deleted_at is null and status in ('creating', 'ready', 'resetting', 'error')
order by expires_at
limit 100;

-- name: KeepLease :execrows
-- Says that a worker is at it; no row when the branch went on to another status.
update branches
set lease_until = now() + make_interval(secs => @seconds)
where id = @id and deleted_at is null and status = @status;

-- name: ClaimStranded :many
-- Branches in the middle of an operation that nobody works on: the process that did so is gone. Each caller gets others.
update branches
set lease_until = now() + interval '30 seconds'
where id in (
    select id
    from branches
    where deleted_at is null and status in ('creating', 'resetting', 'deleting') and lease_until < now()
    order by lease_until
    limit 100
    for update skip locked)
returning id;

-- name: ListDatabaseOwners :many
-- Which databases belong to branches that are still there.
select id, slug, database_name, generation, status, error_code, is_main from branches where deleted_at is null;

-- name: CountBranchesByStatus :many
select status, count(*) as count from branches where deleted_at is null and not is_main group by status;

-- name: FindIdempotencyKey :one
select * from idempotency_keys where principal = @principal and key = @key and created_at > now() - interval '24 hours';

-- name: InsertIdempotencyKey :exec
insert into idempotency_keys (principal, key, request_hash, branch_id)
values (@principal, @key, @request_hash, @branch_id)
on conflict (principal, key) do update
set request_hash = excluded.request_hash, branch_id = excluded.branch_id, created_at = now();

-- name: LockIdempotencyKey :exec
select pg_advisory_xact_lock(hashtextextended(@principal::text || chr(10) || @key::text, 1));

-- name: SweepIdempotencyKeys :execrows
delete from idempotency_keys where created_at < now() - interval '24 hours';
