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
-- Gives the request the token and the code that go out by mail; those of an earlier try that failed stop working.
update mail_tokens set hash = @hash, code_hash = @code_hash where id = @id and used_at is null and expires_at > now();

-- name: PeekMailToken :one
select * from mail_tokens where hash = @hash and used_at is null and expires_at > now();

-- name: SpendMailToken :one
update mail_tokens set used_at = now() where hash = @hash and used_at is null and expires_at > now() returning *;

-- name: TryMailCode :one
-- Counts a try of the newest mail's code before it is looked at, so that of parallel tries no more than the limit count.
update mail_tokens m
set tries = m.tries + 1
where m.id = (
        select t.id
        from mail_tokens t
        where t.email = @email and t.used_at is null and t.expires_at > now() and t.purpose::text = any (@purposes::text[])
        order by t.created_at desc, t.id desc
        limit 1)
  and m.tries < @max_tries
returning *;

-- name: SpendMailTokenByID :one
-- Spends a token whose code was right, unless another mail's code or link was sent with it meanwhile.
update mail_tokens
set used_at = now()
where id = @id and code_hash = @code_hash and used_at is null and expires_at > now()
returning *;

-- name: PendingSignUp :one
-- The password of the newest sign-up with the address that waits for its confirmation.
select password_hash
from mail_tokens
where email = @email and purpose = 'sign_up' and used_at is null and expires_at > now()
order by created_at desc, id desc
limit 1;

-- name: CancelMailTokens :exec
-- Ends what was asked for in a user's name and waits for a link: it may have been asked for by whoever is shut out now.
update mail_tokens
set used_at = now()
where used_at is null
  and (user_id = @user_id::uuid and purpose = 'change_email' or email = @email and purpose = 'reset');

-- name: CancelAllMailTokens :exec
-- Ends every mail that waits for an address or in a user's name.
update mail_tokens
set used_at = now()
where used_at is null and (user_id = @user_id::uuid or email = @email);

-- name: SweepMailTokens :exec
delete from mail_tokens where expires_at < now() - interval '1 day';
