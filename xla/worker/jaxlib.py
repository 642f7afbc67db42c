# soon
