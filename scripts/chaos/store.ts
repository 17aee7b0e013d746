import { Context, Effect, Layer } from "effect"
import { readFileSync } from "node:fs"
import path from "node:path"
import * as Database from "../../src/server/store/Database.ts"
import { EmbeddedPostgres, type EmbeddedPostgresOptions } from "../../src/server/store/EmbeddedPostgres.ts"
import { layerMigrated } from "../../src/server/store/migrate.ts"

/** A migrated PostgreSQL that can be restarted, until the scope closes. */
export const startDatabase = (options: EmbeddedPostgresOptions) =>
  Effect.map(Layer.build(EmbeddedPostgres.layer(options)), (context) => {
    const { url } = Context.get(context, EmbeddedPostgres)
    return {
      url,
      layer: Layer.orDie(layerMigrated.pipe(Layer.provideMerge(Database.layer({ url })))),
      /** Tells the server to stop (fast shutdown); the embedded database of this process starts it again. */
      restart: Effect.sync(() => {
        const claim = readFileSync(path.join(options.dataDir, "postgres", "postmaster.pid"), "utf8")
        process.kill(Number.parseInt(claim, 10), "SIGINT")
      })
    }
  })
