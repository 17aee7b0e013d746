import { useMemo } from "react"
import { navigate, useSearch } from "../app/router.tsx"
import type { QueryChange, QueryDefinition, QueryFields, QueryState } from "../state/queryState.ts"

/** Writes parameters of the address. `replace`: without a step that Back undoes, such as while its user types. */
export type SetQuery<Fields extends QueryFields> = (
  change: QueryChange<Fields>,
  options?: { readonly replace?: boolean }
) => void

/**
 * State of a page in the query of its address, so that Back, Forward, a reload and a link restore it:
 *
 * ```ts
 * const parameters = defineQuery({ status: Schema.Literals(["open", "closed"]), text: QueryText })
 * const [{ status = "open" }, setQuery] = useQueryState(parameters)
 * setQuery({ status: "closed" })
 * ```
 */
export const useQueryState = <Fields extends QueryFields>(
  definition: QueryDefinition<Fields>
): readonly [QueryState<Fields>, SetQuery<Fields>] => {
  const search = useSearch()
  const state = useMemo(() => definition.read(search), [definition, search])
  const setQuery: SetQuery<Fields> = (change, options = {}) => {
    // The address itself, because two changes may happen before the next rendering.
    const next = definition.write(location.search, change)
    if (next === location.search) return
    navigate(next, { replace: options.replace === true, keepScroll: true })
  }
  return [state, setQuery]
}
