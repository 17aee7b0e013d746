/**
 * Lint rule `countersign-atoms/no-nested-family`: an `Atom.family` within another. A family holds its members by weak references, and nothing
 * else holds an inner family: after a garbage collection its lists would begin again at their first page. Use one family of an object,
 * `Atom.family(({ task_id, filter }) => …)`: its parameters are compared by their content.
 */

const isFamily = (node) =>
  node.callee.type === "MemberExpression" &&
  node.callee.object.name === "Atom" &&
  node.callee.property.name === "family"

const rule = {
  create(context) {
    let depth = 0
    return {
      CallExpression(node) {
        if (!isFamily(node)) return
        depth++
        if (depth > 1) {
          context.report({
            node,
            message: "A nested Atom.family forgets its atoms. Use one family of an object."
          })
        }
      },
      "CallExpression:exit"(node) {
        if (isFamily(node)) depth--
      }
    }
  }
}

export default { meta: { name: "countersign-atoms" }, rules: { "no-nested-family": rule } }
