import { Context, Effect, Layer, Redacted } from "effect"
import { generateMasterKey } from "../../src/server/secrets/SecretBox.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cloneDatabase, serviceDatabase } from "./postgres.ts"

/** The services of the second replica: `Effect.provideContext(Steps, yield* SecondReplica)` is its `Steps`. */
export class SecondReplica extends Context.Service<
  SecondReplica,
  Context.Context<Layer.Success<ReturnType<typeof Countersign.layer>>>
>()("countersign/test/SecondReplica") {}

/** Two replicas in one process, on one database and with one master key. The services of the first are in the context. */
export const layerTwoReplicasWith = (settings: Readonly<Record<string, string>>) =>
  Layer.unwrap(
    Effect.map(Effect.all([cloneDatabase, generateMasterKey]), ([url, masterKey]) => {
      const { databaseUrl, environment } = serviceDatabase(url)
      const options = {
        databaseUrl,
        environment: { ...environment, ...settings, COUNTERSIGN_MASTER_KEY: Redacted.value(masterKey) }
      }
      return Layer.merge(
        Countersign.layer(options),
        Layer.effect(SecondReplica, Layer.build(Layer.fresh(Countersign.layer(options))))
      )
    })
  )

/** The same, without further settings. */
export const layerTwoReplicas = layerTwoReplicasWith({})
