/** Arguments as a tool gets them, for frameworks that validate them only after the gate. */

/** The part of [Standard Schema](https://standardschema.dev) that Zod, Valibot and ArkType implement. */
interface StandardSchema {
  readonly "~standard": {
    readonly validate: (value: unknown) => StandardResult | Promise<StandardResult>
  }
}

type StandardResult =
  | { readonly issues?: undefined; readonly value: unknown }
  | {
      readonly issues: ReadonlyArray<{
        readonly message: string
        readonly path?: ReadonlyArray<unknown> | undefined
      }>
    }

export type ValidatedArguments =
  | { readonly isValid: true; readonly value: unknown }
  | {
      readonly isValid: false
      /** What to tell the model. */
      readonly message: string
    }

/** Converts arguments by the tool's schema. A JSON Schema converts nothing, so such arguments are returned as they are. */
export const validateArguments = async (schema: unknown, value: unknown): Promise<ValidatedArguments> => {
  if (!isStandardSchema(schema)) return { isValid: true, value }
  const result = await schema["~standard"].validate(value)
  if (result.issues === undefined) return { isValid: true, value: result.value }
  const issues = result.issues.map(({ message, path = [] }) => {
    const place = path.map(keyOf).join(".")
    return place === "" ? message : `${place}: ${message}`
  })
  return {
    isValid: false,
    message: `The arguments do not match the tool's schema, so it was not executed. ${issues.join("; ")}`
  }
}

const isStandardSchema = (schema: unknown): schema is StandardSchema =>
  (typeof schema === "object" || typeof schema === "function") && schema !== null && "~standard" in schema

const keyOf = (segment: unknown): string =>
  String(typeof segment === "object" && segment !== null && "key" in segment ? segment.key : segment)
