// The JavaScript side of the entrypoint: every call goes to Python.
import { WorkerEntrypoint } from 'cloudflare:workers';
import { boot } from './boot.mjs';
import { COUNTS_PATH, counts } from './counts.mjs';

const dispatch = await boot();

function call(entrypoint, method, ...args) {
  return dispatch.call.callWithOptions({ promising: true }, method, entrypoint.ctx, entrypoint.env, args);
}

export default class Default extends WorkerEntrypoint {
  fetch(request) {
    if (new URL(request.url).pathname === COUNTS_PATH) return Response.json(counts);
    return call(this, 'fetch', request);
  }

  scheduled(controller) {
    return call(this, 'scheduled', controller, null, null);
  }
}
