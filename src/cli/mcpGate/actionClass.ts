import type { Schema } from "effect"
import { isObject } from "../mcp/jsonRpc.ts"

/**
 * The action class of a tool: the setting, or the claim of the tool's annotations. A tool without annotations may be destructive, as in the
 * protocol. The annotations are from the accepted definition, so a server cannot change them unnoticed.
 */
export const actionClassOf = (
  definition: Readonly<Record<string, Schema.Json>>,
  tool: string,
  settings: Readonly<Record<string, string>>
): string => {
  const setting = Object.hasOwn(settings, tool) ? settings[tool] : undefined
  if (setting !== undefined) return setting
  const annotations = isObject(definition["annotations"]) ? definition["annotations"] : {}
  if (annotations["readOnlyHint"] === true) return "read"
  return annotations["destructiveHint"] === false ? "write" : "destructive"
}
