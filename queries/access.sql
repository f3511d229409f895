-- name: ListAccess :many
select * from branch_access where branch_id = @branch_id order by created_at, user_id;

-- name: PutAccess :one
insert into branch_access (branch_id, user_id, level, granted_by)
values (@branch_id, @user_id, @level, @granted_by)
on conflict (branch_id, user_id) do update set level = excluded.level, granted_by = excluded.granted_by
returning *;

-- name: DeleteAccess :execrows
delete from branch_access where branch_id = @branch_id and user_id = @user_id;
