import type { Array as Arr } from "effect"
import { InsufficientScope } from "../../api/Problems.ts"
import type { Scope } from "../../domain/identity/Scope.ts"

/** The problem for a key that has none of these scopes, of which any suffices. */
export const insufficientScope = (scopes: Arr.NonEmptyReadonlyArray<Scope>): InsufficientScope =>
  new InsufficientScope({
    detail: `This operation requires the scope ${scopes.join(" or ")}.`,
    required_scope: scopes[0]
  })
