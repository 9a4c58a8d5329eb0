// Python compiled once and kept, since compiling is most of the interpreter's start.
//
// What is made lies under node_modules/.cache, each piece in a folder named by the digest of what it was made from.
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';

const HERE = import.meta.dirname;
const PYODIDE = path.dirname(createRequire(import.meta.url).resolve('pyodide/package.json'));
const STDLIB = path.join(PYODIDE, 'python_stdlib.zip');
const CACHE = path.join(HERE, 'node_modules', '.cache', 'titen-compiled');
const PYCACHE = '__pycache__';
const TAG = 'cpython-314';

// The standard library with compiled modules instead of sources.
export function compiledStdlib() {
  return path.join(kept({ stdlib: STDLIB }, [STDLIB]), 'python_stdlib.zip');
}

// [target, source] pairs, and for each module among them another pair with its compiled form.
export function withCompiled(pairs) {
  const modules = pairs.filter(([target]) => target.endsWith('.py'));
  const folder = kept({ modules }, modules.map(([, source]) => source));
  return [...pairs, ...modules.map(([target], at) => [compiledName(target), path.join(folder, `${at}.pyc`)])];
}

function compiledName(target) {
  const { dir, name } = path.posix.parse(target);
  return `${dir}/${PYCACHE}/${name}.${TAG}.pyc`;
}

function kept(job, sources) {
  const digest = crypto.createHash('sha256').update(fs.readFileSync(path.join(PYODIDE, 'package.json')));
  digest.update(fs.readFileSync(import.meta.filename)).update(JSON.stringify(Object.values(job).flat(2).filter(isTarget)));
  for (const source of sources) digest.update(fs.readFileSync(source)).update('\0');
  const folder = path.join(CACHE, digest.digest('hex'));
  if (!fs.existsSync(folder)) make(job, folder);
  return folder;
}

function isTarget(name) {
  return name.startsWith('/session/');
}

// In a process of its own, which gives back the memory of an interpreter. Two at once do no harm: one is kept.
function make(job, folder) {
  fs.mkdirSync(CACHE, { recursive: true });
  const draft = fs.mkdtempSync(path.join(CACHE, 'draft-'));
  execFileSync(process.execPath, [import.meta.filename], {
    input: JSON.stringify({ ...job, draft }),
    stdio: ['pipe', 'inherit', 'inherit'],
  });
  try {
    fs.renameSync(draft, folder);
  } catch (failure) {
    if (!fs.existsSync(folder)) throw failure;
    fs.rmSync(draft, { recursive: true });
  }
}

const COMPILE = `
import importlib._bootstrap_external as importing, zipfile

def compiled(source, name):
    return importing._code_to_hash_pyc(compile(source, name, "exec", dont_inherit=True), bytes(8), False)

def compile_stdlib(source, target):
    with zipfile.ZipFile(source) as given, zipfile.ZipFile(target, "w") as made:
        for entry in given.infolist():
            content = given.read(entry)
            if entry.filename.endswith(".py"):
                made.writestr(entry.filename + "c", compiled(content, "/lib/python314.zip/" + entry.filename))
            else:
                made.writestr(entry.filename, content)
`;

async function run({ stdlib, modules = [], draft }) {
  const { loadPyodide } = await import(path.join(PYODIDE, 'pyodide.mjs'));
  const pyodide = await loadPyodide();
  pyodide.runPython(COMPILE);
  if (stdlib) {
    pyodide.mountNodeFS('/given', path.dirname(stdlib));
    pyodide.mountNodeFS('/draft', draft);
    pyodide.globals.get('compile_stdlib')(`/given/${path.basename(stdlib)}`, '/draft/python_stdlib.zip');
  }
  const compiled = pyodide.globals.get('compiled');
  modules.forEach(([target, source], at) => {
    const made = compiled(fs.readFileSync(source, 'utf8'), target);
    fs.writeFileSync(path.join(draft, `${at}.pyc`), made.toJs());
    made.destroy();
  });
}

if (process.argv[1] === import.meta.filename) await run(JSON.parse(fs.readFileSync(0, 'utf8')));
