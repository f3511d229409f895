package redirect

// Defaults returns the entries that mcp.oauth.allowed_redirect_uris has where nothing is configured: the callback
// addresses of well-known clients, and all of loopback, where editors and command-line programs listen on a port of the
// moment. Windsurf, Zed, Codex, Gemini CLI and others need nothing but the latter.
func Defaults() []string {
	return []string{
		// Claude, on the web, the desktop and phones.
		"https://claude.ai/api/mcp/auth_callback",
		"https://claude.com/api/mcp/auth_callback",
		// ChatGPT: one address for all connectors, or one for each.
		"https://chatgpt.com/connector_platform_oauth_redirect",
		"https://chatgpt.com/connector/oauth/*",
		// Visual Studio Code, which goes by way of its site when it cannot listen.
		"https://vscode.dev/redirect",
		"https://insiders.vscode.dev/redirect",
		"http://127.0.0.1:33418/",
		// Cursor registers its site, its scheme and a loopback address together. The scheme's path has, or had, the name
		// of a server in it.
		"https://www.cursor.com/agents/mcp/oauth/callback",
		"https://www.cursor.com/bot/mcp/oauth/callback",
		"cursor://anysphere.cursor-mcp/oauth/callback",
		"cursor://anysphere.cursor-mcp/oauth/*/callback",
		"cursor://anysphere.cursor-retrieval/oauth/callback",
		"cursor://anysphere.cursor-retrieval/oauth/*/callback",
		"grokbot://mcp/oauth/callback",
		// Google Antigravity, Grok, Mistral's Le Chat.
		"https://antigravity.google/oauth-callback",
		"https://grok.com/connectors-oauth-exchange-code/",
		"https://callback.mistral.ai/v1/integrations_auth/oauth2_callback",
		// The MCP inspector.
		"http://localhost:6274/oauth/callback",
		"http://localhost:6274/oauth/callback/debug",
		// Any program on the computer of the person who signs in.
		"http://localhost:*",
		"http://127.0.0.1:*",
		"http://[::1]:*",
	}
}
