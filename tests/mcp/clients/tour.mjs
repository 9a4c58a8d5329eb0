// What each TypeScript client does, whichever generation it is of: list the tools and call all three.

const CONTENT = "Prefers the night train to Surabaya";

/** Connects, tours and closes; the answers, in the shape that official.py prints too. */
export async function tour(client, transport, subject) {
  await client.connect(transport);
  try {
    const { tools } = await client.listTools();
    const stored = await call(client, "titen_remember", { content: CONTENT, subject_id: subject });
    const found = await call(client, "titen_recall", { query: "night train", subject_id: subject });
    const gone = await call(client, "titen_forget", { id: stored.id });
    const version = client.getNegotiatedProtocolVersion?.(); // forgotten once the client is closed
    return { version, tools: tools.map((tool) => tool.name), stored, found, gone };
  } finally {
    await client.close();
  }
}

async function call(client, name, args) {
  const result = await client.callTool({ name, arguments: args });
  if (result.isError || !result.structuredContent) throw new Error(`${name}: ${JSON.stringify(result.content)}`);
  return result.structuredContent;
}
