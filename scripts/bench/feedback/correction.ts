import type { JsonObject } from "../../../src/domain/tasks/Dataset.ts"

/** A typical answer schema: an object with texts, an enum, numbers and a list of objects. */
export const answerSchema: JsonObject = {
  type: "object",
  additionalProperties: false,
  required: ["category", "summary", "items"],
  properties: {
    category: { enum: ["billing", "shipping", "returns", "other"] },
    summary: { type: "string", maxLength: 4_000 },
    confidence: { type: "number", minimum: 0, maximum: 1 },
    items: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["sku", "quantity"],
        properties: {
          sku: { type: "string", pattern: "^[A-Z]{2}-[0-9]{4}$" },
          quantity: { type: "integer", minimum: 1 },
          note: { type: "string" },
          url: { type: "string" }
        }
      }
    }
  }
}

/** An answer that fits `answerSchema`, with about `bytes` bytes of JSON. */
export const correctionOf = (bytes: number): JsonObject => {
  const items: Array<JsonObject> = []
  const correction = () => ({
    category: "shipping",
    summary:
      "The customer asks where order 4411 is. It left the warehouse on 2026-11-19 and is due on Tuesday; they want it at the office instead.",
    confidence: 0.82,
    items
  })
  while (JSON.stringify(correction()).length < bytes) {
    const number = String(4_000 + items.length)
    items.push({
      sku: `AB-${number}`,
      quantity: 1 + (items.length % 5),
      note: `Item ${number}, in the second parcel; leave it with the neighbours if nobody is in.`,
      url: `https://example.com/orders/4411/items/${number}?from=mail`
    })
  }
  return correction()
}
