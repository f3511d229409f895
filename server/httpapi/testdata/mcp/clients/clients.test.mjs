// Published clients of the Model Context Protocol, each with the same task: those of both eras, and a proxy for programs that
// only know how to start a process.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client as Modern, StreamableHTTPClientTransport as ModernTransport } from '@modelcontextprotocol/client'
import { Client as Legacy } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { changeTheSchemaOnABranch } from './task.mjs'

const address = new URL(`${process.env.BOUGH_URL}/mcp`)
const key = { 'X-Service-Key': process.env.BOUGH_SERVICE_KEY }
const token = { Authorization: `Bearer ${process.env.BOUGH_TOKEN}` }
const info = { name: 'acceptance', version: '1.0.0' }

// asked is a person who answers what a client asks her.
function asked(client, request) {
  const person = { answer: 'cancel', questions: [] }
  client.setRequestHandler(request, async ({ params }) => {
    person.questions.push(params.message)
    return person.answer === 'accept' ? { action: 'accept', content: {} } : { action: person.answer }
  })
  return person
}

function modern(asks) {
  const client = new Modern(info, { capabilities: asks ? { elicitation: {} } : {}, versionNegotiation: { mode: { pin: '2026-07-28' } } })
  return { client, person: asks ? asked(client, 'elicitation/create') : null }
}

function legacy(asks) {
  const client = new Legacy(info, { capabilities: asks ? { elicitation: {} } : {} })
  return { client, person: asks ? asked(client, ElicitRequestSchema) : null }
}

for (const asks of [true, false]) {
  const can = asks ? 'can ask' : 'cannot ask'
  test(`the modern client, where it ${can}`, async (t) => {
    const { client, person } = modern(asks)
    t.after(() => client.close())
    await client.connect(new ModernTransport(address, { requestInit: { headers: asks ? token : key } }))
    assert.equal(client.getServerVersion().name, 'bough')
    await changeTheSchemaOnABranch(client, `modern ${can}`, person)
  })
  test(`the legacy client, where it ${can}`, async (t) => {
    const { client, person } = legacy(asks)
    t.after(() => client.close())
    const transport = new LegacyTransport(address, { requestInit: { headers: asks ? key : token } })
    await client.connect(transport)
    assert.ok(transport.sessionId)
    assert.match(client.getInstructions(), /branch/)
    await changeTheSchemaOnABranch(client, `legacy ${can}`, person)
    await transport.terminateSession()
  })
}

test('a client that finds out what the server speaks', async (t) => {
  const client = new Modern(info, { versionNegotiation: { mode: 'auto' } })
  t.after(() => client.close())
  await client.connect(new ModernTransport(address, { requestInit: { headers: token } }))
  assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28')
  const { resources } = await client.listResources()
  assert.ok(resources.length > 0)
  await client.readResource({ uri: resources[0].uri })
  const { prompts } = await client.listPrompts()
  assert.ok(prompts.length > 0)
})

test('mcp-remote with a key in a header', async (t) => {
  const { client } = legacy(false)
  t.after(() => client.close())
  await client.connect(new StdioClientTransport({
    command: process.execPath, stderr: 'ignore', env: process.env,
    args: ['node_modules/mcp-remote/dist/proxy.js', address.href, '--header', `X-Service-Key:${key['X-Service-Key']}`],
  }))
  await changeTheSchemaOnABranch(client, 'by proxy', null)
})
