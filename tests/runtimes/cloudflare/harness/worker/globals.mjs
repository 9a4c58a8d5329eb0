// Evaluated before pyodide.mjs: makes workerd look to Emscripten like a browser's worker, and holds back
// randomness as the platform does while the global scope runs.
import { env } from 'cloudflare:workers';
import asmModule from './pyodide.asm.wasm';
import stdlib from './python_stdlib.zip';

export const PYODIDE_URL = 'https://pyodide.local/';

const native = { process: globalThis.process, fetch: globalThis.fetch, Module: WebAssembly.Module };

globalThis.process = undefined; // or Emscripten believes it is Node
globalThis.location ??= new URL(PYODIDE_URL);

// Only the standard library is ever fetched while Pyodide loads.
globalThis.fetch = async (url, init) =>
  String(url?.url ?? url).startsWith(PYODIDE_URL)
    ? { ok: true, arrayBuffer: async () => stdlib }
    : native.fetch(url, init);

// workerd compiles no WebAssembly at run time but through its unsafe binding; side modules need it.
function Module(bytes) {
  const view = ArrayBuffer.isView(bytes) ? bytes : new Uint8Array(bytes);
  return env.UNSAFE_EVAL.newWasmModule(view.slice().buffer);
}
Module.prototype = native.Module.prototype;
for (const name of ['customSections', 'exports', 'imports']) Module[name] = native.Module[name].bind(native.Module);

WebAssembly.Module = Module;
WebAssembly.compile = async (bytes) => new Module(bytes);
WebAssembly.instantiate = async (source, imports) => {
  if (source instanceof native.Module) return new WebAssembly.Instance(source, imports);
  const module = new Module(source);
  return { module, instance: new WebAssembly.Instance(module, imports) };
};
WebAssembly.instantiateStreaming = async (_response, imports) => ({
  module: asmModule,
  instance: new WebAssembly.Instance(asmModule, imports),
});

const realRandom = crypto.getRandomValues.bind(crypto);
let loading = true;
crypto.getRandomValues = (array) => (loading ? array.fill(43) : realRandom(array));

// Pyodide and its own modules are loaded; from here on the platform refuses randomness until a request.
export function pyodideIsLoaded() {
  loading = false;
  globalThis.process = native.process;
  globalThis.fetch = native.fetch;
}
