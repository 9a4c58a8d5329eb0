// The TypeScript SDK of 2025: `sdk1.mjs TARGET`, as official.py. It has one mode.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { tour } from "./tour.mjs";

const target = JSON.parse(process.argv[2]);
const client = new Client({ name: "titen-tests", version: "1" });
const transport = target.command
  ? new StdioClientTransport({ command: target.command, args: target.args, env: target.env })
  : new StreamableHTTPClientTransport(new URL(target.url), {
      requestInit: { headers: { Authorization: `Bearer ${target.key}` } },
    });
let version;
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (chosen) => {
  version = chosen;
  tell?.(chosen);
};
const answers = await tour(client, transport, target.subject);
console.log(JSON.stringify({ ...answers, version }));
