import { Effect, Redacted, type Scope } from "effect"
import { createServer, connect as dial, type Socket } from "node:net"
import path from "node:path"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** The longest text that is found although it is split between two packets. */
const OVERLAP = 100

/** A proxy in front of a database that can hold back the database's responses. */
export interface HeldDatabase {
  readonly url: Redacted.Redacted
  /**
   * From now on, holds back the answers on each connection on which the client has sent this text; statements still reach the database.
   * Other connections work: a statement may need one that has no statement in progress.
   */
  readonly hold: (text: string) => Effect.Effect<void>
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
      let held: string | undefined
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
        // The text may be split between two packets.
        let sent = ""
        client.on("data", (data: Buffer) => {
          sent = sent.slice(-OVERLAP) + data.toString("latin1")
          if (held !== undefined && sent.includes(held)) behind.pause()
          behind.write(data)
        })
        behind.on("data", (data: Buffer) => void client.write(data))
      })
      const port = await listenOnFreePort(server)
      url.searchParams.set("host", "127.0.0.1")
      url.searchParams.set("port", String(port))
      const proxy: HeldDatabase = {
        url: Redacted.make(url.href),
        hold: (text) => Effect.sync(() => void (held = text)),
        release: Effect.sync(() => {
          held = undefined
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
