// Packs Pyodide, an app's folder and its python_modules into the modules of one Worker.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const HERE = import.meta.dirname;
const PYODIDE = path.dirname(createRequire(import.meta.url).resolve('pyodide/package.json'));
const NOT_PACKED = /__pycache__|\.dist-info\/(licenses|RECORD)|\.pyi$/;

export function workerModules(app, pythonModules) {
  const packed = pack([
    ...filesBelow(app, '/session/metadata'),
    ...filesBelow(pythonModules, '/session/metadata/python_modules'),
    ['/session/harness/dispatch.py', path.join(HERE, 'worker', 'dispatch.py')],
  ]);
  return [
    ...['worker.mjs', 'boot.mjs', 'counts.mjs', 'globals.mjs'].map((name) => script(name, path.join(HERE, 'worker', name))),
    ...['pyodide.mjs', 'pyodide.asm.mjs'].map((name) => script(name, path.join(PYODIDE, name))),
    module('CompiledWasm', 'pyodide.asm.wasm', fs.readFileSync(path.join(PYODIDE, 'pyodide.asm.wasm'))),
    module('Data', 'python_stdlib.zip', fs.readFileSync(path.join(PYODIDE, 'python_stdlib.zip'))),
    module('Data', 'files.bin', packed.contents),
    module('ESModule', 'bundle.mjs', exported({ files: packed.files, lockFile: lockFile() })),
  ];
}

function filesBelow(folder, target) {
  return fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => !NOT_PACKED.test(file))
    .map((file) => [`${target}/${path.relative(folder, file)}`, file]);
}

function pack(pairs) {
  const contents = pairs.map(([, source]) => fs.readFileSync(source));
  let end = 0;
  const files = pairs.map(([target], at) => {
    const start = end;
    end += contents[at].length;
    return [target, start, contents[at].length];
  });
  return { files, contents: Buffer.concat(contents) };
}

// workerd gives modules no import.meta.url, which Pyodide's loader asks for.
function script(name, file) {
  const text = fs.readFileSync(file, 'utf8').replaceAll('import.meta.url', '"https://pyodide.local/pyodide.mjs"');
  return module('ESModule', name, text);
}

// Nothing but the interpreter's own description: no package may be looked up or fetched.
function lockFile() {
  const { info } = JSON.parse(fs.readFileSync(path.join(PYODIDE, 'pyodide-lock.json'), 'utf8'));
  return JSON.stringify({ info, packages: {} });
}

function exported(values) {
  return Object.entries(values)
    .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`)
    .join('\n');
}

function module(type, name, contents) {
  return { type, path: name, contents };
}
