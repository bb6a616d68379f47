// Decides by a table as the platform does: the first rule that holds, and where it leads. Conditions are nested lists, as
// decision_data.py makes them; what they ask for and a decision lacks is an error, never a guess.
function valueOf(term, facts, limits) {
  if (term[0] === "value") return term[1];
  const record = term[0] === "fact" ? facts : limits;
  if (!Object.prototype.hasOwnProperty.call(record, term[1])) throw new Error("no " + term[0] + " " + term[1]);
  return record[term[1]];
}

function holds(condition, facts, limits) {
  const [kind, first, second] = condition;
  switch (kind) {
    case "always": return true;
    case "flag": return valueOf(first, facts, limits) === true;
    case "not": return !holds(first, facts, limits);
    case "all": return first.every((part) => holds(part, facts, limits));
    case "any": return first.some((part) => holds(part, facts, limits));
    case "in": return second.includes(valueOf(first, facts, limits));
  }
  const left = valueOf(first, facts, limits), right = valueOf(second, facts, limits);
  switch (kind) {
    case "==": return left === right;
    case "!=": return left !== right;
    case "<": return left < right;
    case "<=": return left <= right;
    case ">": return left > right;
    case ">=": return left >= right;
  }
  throw new Error("no condition " + kind);
}

function decide(table, facts, limits) {
  const rule = table.find((each) => holds(each.when, facts, limits));
  const way = rule.ways.find(([condition]) => holds(condition, facts, limits));
  return { rule: rule.rule, destination: way[1] };
}
