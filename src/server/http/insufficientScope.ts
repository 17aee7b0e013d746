import type { Array as Arr } from "effect"
import { InsufficientScope } from "../../api/Problems.ts"
import { Preset, presetScopes, type Scope } from "../../domain/identity/Scope.ts"

/** The problem for a key that has none of these scopes: any one of them suffices. */
export const insufficientScope = (scopes: Arr.NonEmptyReadonlyArray<Scope>): InsufficientScope => {
  const presets = Preset.literals.filter(
    (preset) => preset !== "admin" && scopes.some((scope) => presetScopes(preset).includes(scope))
  )
  return new InsufficientScope({
    detail: `This operation requires the scope ${scopes.join(" or ")}. Use an API key that has it, such as one with the preset ${presets.join(" or ") || "admin"}.`,
    required_scope: scopes[0]
  })
}
