// What an assistant does who is asked to change a schema: on a branch first. The table books is made by
// mcp_clients_test.go, and no client leaves a trace on main.
import assert from 'node:assert/strict'

const call = async (client, name, args) => {
  const result = await client.callTool({ name, arguments: args })
  const text = result.content.map((part) => part.text).join('\n')
  return { failed: result.isError === true, text, data: result.structuredContent }
}

async function works(client, name, args) {
  const { failed, text, data } = await call(client, name, args)
  assert.ok(!failed, `${name}: ${text}`)
  assert.ok(data, `${name} has no structured result: ${text}`)
  return data
}

async function fails(client, name, args, says) {
  const { failed, text } = await call(client, name, args)
  assert.ok(failed, `${name} worked: ${text}`)
  assert.match(text, says)
}

// person answers questions; null is a client that cannot ask. What was asked is in questions.
export async function changeTheSchemaOnABranch(client, name, person) {
  const { tools } = await client.listTools()
  assert.ok(tools.some((tool) => tool.name === 'apply_migration'), tools.map((tool) => tool.name).join(' '))
  const made = await works(client, 'create_branch', { name, data_clone_mode: 'full_clone', expires_in: '1h' })
  assert.equal(made.ready, true, JSON.stringify(made))
  const branch = made.branch

  const migrated = await works(client, 'apply_migration', {
    name: 'pages', branch,
    sql: 'alter table books add column pages int not null default 100; create table shelves (id int primary key); grant select on shelves to authenticated;',
  })
  assert.deepEqual([migrated.branch, migrated.statements], [branch, 3])
  const compared = await works(client, 'compare_branch_schema', { branch })
  assert.deepEqual([compared.added, compared.removed, compared.changed], [['table public.shelves'], [], ['table public.books']])
  assert.match(compared.diff, /\+ column pages integer not null default 100/)

  const written = await works(client, 'insert_records', { table: 'books', branch, records: [{ id: 3, title: 'Emma', pages: 474 }], returning: ['id', 'pages'] })
  assert.deepEqual(written.rows, [{ id: 3, pages: 474 }])
  const order = [{ column: 'id' }]
  assert.deepEqual((await works(client, 'query_table', { table: 'books', branch, order })).rows, [
    { id: 1, title: 'Dracula', pages: 100 }, { id: 2, title: 'Middlemarch', pages: 100 }, { id: 3, title: 'Emma', pages: 474 },
  ])
  const main = [{ id: 1, title: 'Dracula' }, { id: 2, title: 'Middlemarch' }]
  assert.deepEqual((await works(client, 'query_table', { table: 'books', order })).rows, main)
  await fails(client, 'query_table', { table: 'books', select: ['pages'] }, /pages/)
  await fails(client, 'query_table', { table: 'shelves' }, /shelves/)

  await fails(client, 'delete_branch', { branch, confirm: 'another' }, /confirm/)
  if (person) {
    person.answer = 'decline'
    await fails(client, 'delete_branch', { branch }, /declined/)
    assert.equal((await works(client, 'get_branch', { branch })).status, 'ready')
    person.answer = 'accept'
    assert.equal((await works(client, 'delete_branch', { branch })).deleted, true)
    assert.equal(person.questions.length, 2)
    for (const question of person.questions) assert.match(question, new RegExp(`Delete branch "${branch}"`))
  } else {
    await fails(client, 'delete_branch', { branch }, /confirm/)
    assert.equal((await works(client, 'delete_branch', { branch, confirm: branch })).deleted, true)
  }
  await fails(client, 'get_branch', { branch }, /branch_not_found/)
  assert.deepEqual((await works(client, 'query_table', { table: 'books', order })).rows, main)
}
