// Loads Pyodide and the entry module in global scope, as a deployed Python Worker does.
import { PYODIDE_URL, pyodideIsLoaded } from './globals.mjs'; // first: it prepares what pyodide.mjs looks at
import * as cloudflareWorkers from 'cloudflare:workers';
import { counts } from './counts.mjs';
import * as cloudflareSockets from 'cloudflare:sockets';
import { loadPyodide } from './pyodide.mjs';
import createPyodideModule from './pyodide.asm.mjs';
import contents from './files.bin';
import { files, lockFile } from './bundle.mjs';

const APP = '/session/metadata';

export async function boot() {
  const pyodide = await loadPyodide({
    indexURL: PYODIDE_URL,
    packageBaseUrl: PYODIDE_URL,
    createPyodideModule,
    lockFileContents: lockFile,
    env: { HOME: '/session', PYTHONHASHSEED: '111' },
    stdout: (line) => console.log(line),
    stderr: (line) => console.error(line),
  });
  writeFiles(pyodide.FS);
  pyodide.registerJsModule('_pyodide_entrypoint_helper', {
    cloudflareWorkersModule: cloudflareWorkers,
    cloudflareSocketsModule: cloudflareSockets,
    doAnImport: (name) => import(name),
    patchWaitUntil,
  });
  pyodide.registerJsModule('_cloudflare_compat_flags', {
    python_request_headers_preserve_commas: true,
    python_workflows_implicit_dependencies: true,
  });
  pyodide.runPython(`
import sys
sys.path[:0] = ["${APP}", "${APP}/python_modules", "/session/harness"]
import random, tempfile  # the platform lets these and pydantic_core draw their seeds early
import pydantic_core
pydantic_core.SchemaValidator({"type": "any"})
`);
  pyodideIsLoaded();
  return pyodide.pyimport('dispatch');
}

function writeFiles(fs) {
  const bytes = new Uint8Array(contents);
  for (const [path, start, size] of files) {
    fs.mkdirTree(path.slice(0, path.lastIndexOf('/')));
    fs.writeFile(path, bytes.subarray(start, start + size));
  }
}

// A Python awaitable belongs to the call that passes it; waitUntil needs it longer, so it gets a copy.
function patchWaitUntil(ctx) {
  const waitUntil = ctx.waitUntil.bind(ctx);
  ctx.waitUntil = (awaitable) => {
    const kept = typeof awaitable?.copy === 'function' ? awaitable.copy() : awaitable;
    counts.waiting += 1;
    waitUntil(
      Promise.resolve(kept).finally(() => {
        counts.waiting -= 1;
        kept?.destroy?.();
      }),
    );
  };
}
