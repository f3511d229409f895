// mcp-remote with OAuth. What it writes goes on to standard error, so that the one who started this can open the address in it.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { changeTheSchemaOnABranch } from './task.mjs'

const client = new Client({ name: 'acceptance', version: '1.0.0' }, { capabilities: {} })
await client.connect(new StdioClientTransport({
  command: process.execPath, stderr: 'inherit', env: process.env,
  args: [
    'node_modules/mcp-remote/dist/proxy.js', `${process.env.BOUGH_URL}/mcp`,
    '--static-oauth-client-metadata', JSON.stringify({ scope: process.env.BOUGH_SCOPE }),
  ],
}), { timeout: 60_000 })
try {
  await changeTheSchemaOnABranch(client, 'by proxy, allowed', null)
} finally {
  await client.close()
}
