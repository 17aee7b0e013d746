import { Context, type Effect } from "effect"
import type { Principal } from "../../domain/identity/Principal.ts"

/** Counts requests that do the work of several towards the rate limits. */
export class RequestCharges extends Context.Service<
  RequestCharges,
  {
    /**
     * Counts further requests of a key and its organization, after the one that was counted when the request was admitted. They are never
     * refused: if the limits have fewer left, later requests wait until these are paid for.
     */
    readonly charge: (
      requester: Pick<Principal, "org_id"> & { readonly actor: Pick<Principal["actor"], "id"> },
      count: number
    ) => Effect.Effect<void>
  }
>()("countersign/server/identity/RequestCharges") {}
