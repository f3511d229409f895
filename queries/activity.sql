-- name: InsertActivity :exec
insert into branch_activity (id, branch_id, action, user_id, details, status, duration_ms)
values (@id, @branch_id, @action, @user_id, @details, @status, @duration_ms);

-- name: ListActivity :many
select * from branch_activity where branch_id = @branch_id order by created_at desc, id desc limit @max_rows;
