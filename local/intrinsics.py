"""Resolves what CloudFormation resolves in a template: parameters, conditions, and functions that template.yaml uses.

The local stack does this by itself for what it creates, but for conditions with Fn::Join in them. Metric math and
composite alarms, which it does not create, need the values as well.
"""

import re

NO_VALUE = object()


class Resolver:
    """`values` are the parameters given, `names` the physical names of the resources that exist.

    `pseudo` are the parameters that CloudFormation knows by itself, as AWS::Region.
    """

    def __init__(self, template, values, names=None, pseudo=None):
        self.conditions = template.get("Conditions", {})
        self.values = (pseudo or {}) | {"AWS::NoValue": NO_VALUE}
        for name, parameter in template["Parameters"].items():
            value = values.get(name, parameter.get("Default"))
            self.values[name] = value.split(",") if parameter["Type"] == "CommaDelimitedList" else value
        self.names = {} if names is None else names

    def resolve(self, node):
        if isinstance(node, list):
            return [value for value in map(self.resolve, node) if value is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            [(function, argument)] = node.items()
            if function in self.FUNCTIONS:
                return self.FUNCTIONS[function](self, argument)
        resolved = {key: self.resolve(value) for key, value in node.items()}
        return {key: value for key, value in resolved.items() if value is not NO_VALUE}

    def ref(self, name):
        return self.values[name] if name in self.values else self.names[name]

    def holds(self, condition):
        """Whether a condition holds, by its name or as an expression."""
        if isinstance(condition, str):
            return self.holds(self.conditions[condition])
        [(function, argument)] = condition.items()
        match function:
            case "Condition":
                return self.holds(argument)
            case "Fn::Equals":
                left, right = map(self.resolve, argument)
                return str(left) == str(right)
            case "Fn::Not":
                return not self.holds(argument[0])
            case "Fn::And":
                return all(map(self.holds, argument))
        raise ValueError(f"the local stack does not support the condition {function}")

    def _if(self, argument):
        condition, yes, no = argument
        return self.resolve(yes if self.holds(condition) else no)

    def _get_att(self, argument):
        # Of a queue's name and an alarm's name alone: both are what Ref gives, or the end of it.
        return self.names[argument[0]].rsplit("/", 1)[-1]

    def _select(self, argument):
        index, items = argument
        return self.resolve(items)[int(index)]

    def _split(self, argument):
        return self.resolve(argument[1]).split(argument[0])

    def _join(self, argument):
        return argument[0].join(self.resolve(argument[1]))

    def _sub(self, argument):
        text, more = (argument, {}) if isinstance(argument, str) else argument
        more = {name: self.resolve(value) for name, value in more.items()}

        def value(found):
            if found[1].startswith("!"):
                # Not for CloudFormation: it hands on ${...}.
                return f"${{{found[1][1:]}}}"
            return str(more[found[1]] if found[1] in more else self.ref(found[1]))

        return re.sub(r"\$\{([^}]+)\}", value, text)

    FUNCTIONS = {
        "Ref": ref,
        "Fn::If": _if,
        "Fn::GetAtt": _get_att,
        "Fn::Select": _select,
        "Fn::Split": _split,
        "Fn::Join": _join,
        "Fn::Sub": _sub,
    }
