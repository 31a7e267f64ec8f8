"""What a bot is: Bot, Decision, Limits, BotKind; clocks, settings and adjudication."""
