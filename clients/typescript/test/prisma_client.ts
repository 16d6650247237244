/** What `prisma generate` writes for a schema without models. The generator itself would download a program. */

import * as runtime from "@prisma/client/runtime/client";

export interface Transaction {
  $queryRawUnsafe(sql: string, ...params: any[]): Promise<unknown>;
}

interface Client {
  $transaction<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result>;
  $disconnect(): Promise<void>;
}

export const PrismaClient = runtime.getPrismaClient({
  previewFeatures: [],
  clientVersion: "7.10.0",
  engineVersion: "7.10.0",
  activeProvider: "postgresql",
  inlineSchema: 'generator client {\n  provider = "prisma-client"\n}\n\ndatasource db {\n  provider = "postgresql"\n}\n',
  runtimeDataModel: { models: {}, enums: {}, types: {} },
  parameterizationSchema: { strings: [], graph: "AAAA" },
  compilerWasm: {
    getRuntime: async () => await import("@prisma/client/runtime/query_compiler_fast_bg.postgresql.mjs" as string),
    getQueryCompilerWasmModule: async () => {
      const { wasm } = await import("@prisma/client/runtime/query_compiler_fast_bg.postgresql.wasm-base64.mjs" as string);
      return new WebAssembly.Module(Buffer.from(wasm, "base64"));
    },
    importName: "./query_compiler_fast_bg.js",
  },
}) as unknown as new (options: { adapter: unknown }) => Client;
