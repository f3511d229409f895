// Package oauth is an OAuth 2.1 authorization server for applications that speak to Bough for a user: MCP clients. It
// keeps who the applications are, asks users in their browser what they allow them, and issues, renews, revokes and
// verifies the tokens that come of it. It has no HTTP; package httpapi serves the endpoints.
//
// An application (client) registers itself (RFC 7591) or has a document on the web that its id is the URL of (package
// document). It sends the user's browser with an authorization request (Begin), which waits on the server as a pending
// Request, bound to that browser. The user signs in (SignIn, SignInWithCode) and allows some of what was asked (Approve)
// or nothing (Deny). Approval makes a grant and a code; the code is redeemed for an access and a refresh token (Token),
// and a refresh token for the next pair. All that came of one approval hangs on its grant and ends with it.
//
// # What ends what
//
// A code or a refresh token that is presented again ends its grant, since one of the two who presented it is a thief; only
// a refresh token that comes again within a minute, before its successor was used, is refused without consequences, since
// applications with several windows do that. Revoking a refresh token ends the grant, revoking an access token ends that
// token alone.
//
// A user who is deleted takes her grants with her. While she is disabled, none of her tokens is accepted. An
// administrator who no longer is one loses the scopes for administrators at once. Signing out everywhere, a new password
// and its reset end the session of the browser in which she approves, not her grants: an application that she connected
// stays connected until the user or an administrator disconnects it. The first proof of the user's address ends all grants
// that were made before it, since somebody else may have made them.
//
// # Several processes
//
// Everything is decided by the control database, in transactions with row locks, so that of parallel requests with one
// code or token exactly one is served, whichever process they reach. Processes remember access tokens that they verified
// for up to 30 seconds, and forget them at once when a notification on Channel says so.
package oauth
