import { Effect, Redacted, type Scope } from "effect"
import { createServer, connect as dial, type Socket } from "node:net"
import path from "node:path"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** A proxy in front of a database that can hold back the database's responses. */
export interface HeldDatabase {
  readonly url: Redacted.Redacted
  /** Holds back all answers from now on; statements still reach the database. */
  readonly hold: Effect.Effect<void>
  /** Passes on the held responses, and all that follow. */
  readonly release: Effect.Effect<void>
}

/** Starts a proxy that passes everything on until `hold`. */
export const heldDatabase = (database: Redacted.Redacted): Effect.Effect<HeldDatabase, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const url = new URL(Redacted.value(database))
      const host = url.searchParams.get("host") ?? url.hostname
      const databasePort = Number((url.searchParams.get("port") ?? url.port) || 5432)
      const open = new Set<Socket>()
      let held = false
      const server = createServer((client) => {
        const behind = host.startsWith("/")
          ? dial(path.join(host, `.s.PGSQL.${databasePort}`))
          : dial(databasePort, host)
        const end = () => {
          client.destroy()
          behind.destroy()
          open.delete(behind)
        }
        open.add(behind)
        client.on("close", end).on("error", end)
        behind.on("close", end).on("error", end)
        client.pipe(behind)
        behind.on("data", (data: Buffer) => void client.write(data))
        if (held) behind.pause()
      })
      const port = await listenOnFreePort(server)
      url.searchParams.set("host", "127.0.0.1")
      url.searchParams.set("port", String(port))
      const proxy: HeldDatabase = {
        url: Redacted.make(url.href),
        hold: Effect.sync(() => {
          held = true
          for (const socket of open) socket.pause()
        }),
        release: Effect.sync(() => {
          held = false
          for (const socket of open) socket.resume()
        })
      }
      return { proxy, server, open }
    }),
    ({ open, server }) =>
      Effect.promise(async () => {
        for (const socket of open) socket.destroy()
        await new Promise((resolve) => server.close(resolve))
      })
  ).pipe(Effect.map(({ proxy }) => proxy))
