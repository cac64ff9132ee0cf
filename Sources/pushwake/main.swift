print("pushwake")
